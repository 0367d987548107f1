"""Names of GPUs in the text around a matrix: ``nvidia-smi -L``, tables, queries."""

from __future__ import annotations

import re

from proteus.hardware import Gpu, gpus

_NAMED = re.compile(
    r"(?:^|[\s|])(?:GPU\s*)?(?P<number>\d{1,2})\s*[:,|]?\s+(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro|TITAN)\s[\w\-. ]+)"
)
_LONGEST_NAME = 7  # words


def find_models(lines: list[str], numbers: list[int], warnings: list[str]) -> list[Gpu | None]:
    """The model of every GPU, None where the text does not tell.

    One model, named for any of them, is taken for all.
    """
    model_of_gpu: dict[int, Gpu] = {}
    for line in lines:
        match = _NAMED.search(line)
        model = _longest(match["name"]) if match else None
        if match and model is not None:
            model_of_gpu.setdefault(int(match["number"]), model)
    kinds = set(model_of_gpu.values())
    if len(kinds) == 1:
        missing = [n for n in numbers if n not in model_of_gpu]
        if missing and len(missing) < len(numbers):
            warnings.append(
                f"the model of GPU {', '.join(map(str, missing))} is not named; that of the others is taken"
            )
        return [next(iter(kinds))] * len(numbers)
    return [model_of_gpu.get(number) for number in numbers]


def _longest(text: str) -> Gpu | None:
    words = text.split()[:_LONGEST_NAME]
    tries = (gpus.find(" ".join(words[:n])) for n in range(len(words), 0, -1))
    return next((gpu for gpu in tries if gpu is not None), None)
