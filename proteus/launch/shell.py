"""Shell scripts and command lines, parsed and never run.

Read: assignments (arrays, ``+=`` and ``export`` included), ``$NAME``,
``${NAME}``, ``${NAME:-default}``, ``${NAME[@]}``, whole-number arithmetic in
``$((...))``, and ``if`` whose test compares texts that the script sets.  What
a loop, a function, a command substitution or the environment would say stays
unresolved and is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proteus.errors import InputError
from proteus.launch.keys import Entry

#: words of a script and of everything that its variables stand for: far above any launch script
MAX_WORDS = 20_000
MAX_CHARS = 1_000_000

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_OPENS = {"if", "for", "while", "until", "case"}
_CLOSES = {"fi", "done", "esac"}
#: operators that end a command
_ENDS = {"\n", ";", "&", "|", "&&", "||", ";;"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word: pieces of text, each with whether variables in it count and whether blanks split it."""

    pieces: tuple[tuple[str, bool, bool], ...]
    line: int

    @property
    def text(self) -> str:
        return "".join(piece for piece, _, _ in self.pieces)


@dataclass(slots=True, kw_only=True)
class Script:
    """What a script says: its commands with every variable filled in, and what stayed open."""

    commands: list[list[tuple[str, int]]] = field(default_factory=list)
    open_names: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def parse(text: str, source: str) -> Script:
    """The commands of a script.

    >>> parse("TP=2\\nA=(--tp $TP\\n  --sp)\\ntorchrun x.py ${A[@]} --pp ${PP:-4}", "run.sh").commands
    [[('torchrun', 4), ('x.py', 4), ('--tp', 4), ('2', 4), ('--sp', 4), ('--pp', 4), ('4', 4)]]
    """
    script = Script()
    text = _without_heredocs(text)
    try:
        words = list(_words(text, source))
    except _OpenQuoteError as error:
        words = list(_words(text, source, closes_at_line_end=True))
        script.notes.append(f"line {error.line}: a quote is never closed; it is taken to end with its line")
    _Run(words, script, source).go()
    return script


class _OpenQuoteError(Exception):
    def __init__(self, line: int) -> None:
        self.line = line


def _without_heredocs(text: str) -> str:
    """The same lines, with the texts of here-documents blanked."""
    lines: list[str] = []
    end = None
    for line in text.split("\n"):
        if end is not None:
            lines.append("")
            if line.strip() == end:
                end = None
            continue
        match = None if line.lstrip().startswith("#") or "<<<" in line else _HEREDOC.search(line)
        if match:
            end = match[2]
            line = line[: match.start()]
        lines.append(line)
    return "\n".join(lines)


def _words(text: str, source: str, *, closes_at_line_end: bool = False) -> Iterator[Word]:
    """Words and the operators between them, which are words of one unquoted piece."""
    at, line, size = 0, 1, len(text)
    pieces: list[tuple[str, bool, bool]] = []
    begun = 1
    count = 0

    def made() -> Word:
        nonlocal pieces, count
        word = Word(pieces=tuple(pieces), line=begun)
        pieces = []
        count += 1
        if count > MAX_WORDS:
            raise InputError(f"{source}, line {line}: more than {MAX_WORDS} words; no launch script has so many")
        return word

    while at < size:
        char = text[at]
        if not pieces:
            begun = line
        if char == "\\" and at + 1 < size:
            if text[at + 1] == "\n":
                line += 1
            elif text[at + 1 : at + 3] == "\r\n":
                line += 1
                at += 1
            else:
                pieces.append((text[at + 1], False, False))
            at += 2
        elif char == "'" or char == '"':
            end, inside = at + 1, []
            while end < size and text[end] != char:
                if char == '"' and text[end] == "\\" and end + 1 < size:
                    if text[end + 1] == "\n":
                        if closes_at_line_end:
                            break
                    else:
                        inside.append(text[end + 1] if text[end + 1] in '"\\$`' else text[end : end + 2])
                    end += 2
                    continue
                if closes_at_line_end and text[end] == "\n":
                    break
                inside.append(text[end])
                end += 1
            if end >= size and not closes_at_line_end:
                raise _OpenQuoteError(line)
            pieces.append(("".join(inside), char == '"', False))
            line += text.count("\n", at, end)
            at = end + (text[end : end + 1] == char)
        elif char == "$" and at + 1 < size and text[at + 1] in "({":
            close = _closing(text, at + 1)
            if close is None:
                raise InputError(f"{source}, line {line}: {text[at : at + 12]!r} is never closed")
            pieces.append((text[at : close + 1], True, True))
            line += text.count("\n", at, close)
            at = close + 1
        elif char == "#" and not pieces:
            at = text.find("\n", at)
            at = size if at < 0 else at
        elif char in " \t\r":
            if pieces:
                yield made()
            at += 1
        elif char in "\n;&|()":
            ends_array_head = char == "(" and pieces and pieces[-1][0].endswith("=")
            if pieces and not ends_array_head:
                yield made()
            if ends_array_head:
                pieces.append(("(", False, False))
                yield made()
                at += 1
                continue
            operator = text[at : at + 2] if text[at : at + 2] in _ENDS else char
            pieces.append((operator, False, True))
            begun = line
            yield made()
            line += char == "\n"
            at += len(operator)
        else:
            end = at + 1
            while (
                end < size
                and text[end] not in " \t\r\n;&|()'\"\\"
                and not (text[end] == "$" and text[end + 1 : end + 2] in ("(", "{"))
            ):
                end += 1
            pieces.append((text[at:end], True, True))
            at = end
    if pieces:
        yield made()


def _closing(text: str, at: int) -> int | None:
    """Where the bracket at `at` is closed."""
    pairs = {"(": ")", "{": "}"}
    open_, close = text[at], pairs[text[at]]
    depth = 0
    for end in range(at, min(len(text), at + 10_000)):
        depth += (text[end] == open_) - (text[end] == close)
        if depth == 0:
            return end
    return None


class _Run:
    """Goes through the words of a script and fills its variables in."""

    def __init__(self, words: Sequence[Word], script: Script, source: str) -> None:
        self.words, self.script, self.source = words, script, source
        self.variables: dict[str, list[str] | None] = {}
        self.produced = 0

    def go(self) -> None:
        at = 0
        #: of each open block: whether its words count, whether a branch was taken, and whether its test was decided
        blocks: list[tuple[bool, bool, bool]] = []
        command: list[Word] = []
        while at <= len(self.words):
            word = self.words[at] if at < len(self.words) else None
            if word is None or (_is_operator(word) and word.text in _ENDS | {"(", ")", "{", "}"}):
                at = self._command(command, blocks, at)
                command = []
                at += 1
                continue
            if not command and word.text in {"then", "do", "{", "}", "("}:
                at += 1
                continue
            is_array = not command and word.text.endswith("=(") and len(word.pieces) > 1
            if is_array or (command and command[0].text in ("export", "local") and word.text.endswith("=(")):
                at = self._array(word, at + 1, all(counts for counts, _, _ in blocks))
                continue
            command.append(word)
            at += 1

    def _command(self, command: list[Word], blocks: list[tuple[bool, bool, bool]], at: int) -> int:
        if not command:
            return at
        head = command[0].text
        if head in ("then", "do") and len(command) > 1:
            return self._command(command[1:], blocks, at)
        counts = all(block[0] for block in blocks)
        if head in _CLOSES:
            if blocks:
                blocks.pop()
            return at
        if head == "if":
            holds = self._test(command[1:]) if counts else False
            if counts and holds is None:
                self._undecided(command)
            blocks.append((bool(holds), bool(holds), holds is not None))
            return at
        if head in ("elif", "else") and blocks:
            _, taken, decided = blocks.pop()
            outer = all(block[0] for block in blocks)
            if head == "else":
                blocks.append((decided and not taken, True, decided))
                return self._command(command[1:], blocks, at)
            holds = self._test(command[1:]) if outer and not taken and decided else False
            if holds is None:
                self._undecided(command)
            blocks.append((bool(holds), taken or bool(holds), decided and holds is not None))
            return at
        if head in _OPENS:
            if counts:
                self.script.notes.append(f"line {command[0].line}: what {head!r} does is not followed")
            blocks.append((False, True, True))
            return at
        if counts:
            self._simple(command)
        return at

    def _undecided(self, command: Sequence[Word]) -> None:
        test = " ".join(word.text for word in command)
        self.script.notes.append(
            f"line {command[0].line}: whether {test!r} holds is not known; its branches are skipped"
        )

    def _simple(self, command: Sequence[Word]) -> None:
        words = list(command)
        if words[0].text in ("export", "local", "readonly", "declare", "set"):
            words = [word for word in words[1:] if not word.text.startswith("-")]
        while words and (match := _ASSIGNMENT.fullmatch(words[0].text)) and words[0].pieces[0][1]:
            head = words[0].pieces[0][0]
            name, plus = match[1], match[2]
            rest = head[len(name) + len(plus) + 1 :]
            value = Word(pieces=((rest, True, False), *words[0].pieces[1:]), line=words[0].line)
            text = self._filled(value, splits=False)
            new = [text[0]] if text else [""]
            old = self.variables.get(name) if plus else None
            self.variables[name] = ["".join([*(old or []), *new])] if plus and len(old or []) <= 1 else new
            words = words[1:]
        if words:
            line = words[0].line
            made = [(text, word.line) for word in words for text in self._filled(word, splits=True)]
            if made:
                self.script.commands.append([(text, at or line) for text, at in made])

    def _array(self, head: Word, at: int, counts: bool) -> int:
        name, plus = head.text.rstrip("=(").rstrip("+"), head.text.endswith("+=(")
        values: list[str] = []
        while at < len(self.words) and not (_is_operator(self.words[at]) and self.words[at].text == ")"):
            word = self.words[at]
            if not _is_operator(word) and counts:
                values += self._filled(word, splits=True)
            at += 1
        if counts:
            self.variables[name] = [*(self.variables.get(name) or []), *values] if plus else values
        return at + 1

    def _filled(self, word: Word, *, splits: bool) -> list[str]:
        """The texts that a word stands for: several where an unquoted variable has blanks in it."""
        texts = [""]
        has_text = False
        for piece, has_variables, is_split in word.pieces:
            parts = self._expanded(piece, word.line) if has_variables and "$" in piece else [piece]
            if len(word.pieces) == 1 and len(parts) != 1:  # "${ARGS[@]}"
                return self._counted([part for item in parts for part in (item.split() if is_split else [item])])
            joined = " ".join(parts)
            has_text = has_text or bool(joined) or not is_split
            if splits and is_split and has_variables and "$" in piece and joined.split() != [joined]:
                first, *rest = joined.split() or [""]
                texts[-1] += first
                texts += rest
            else:
                texts[-1] += joined
        return self._counted(texts if has_text else [])

    def _counted(self, texts: list[str]) -> list[str]:
        self.produced += sum(map(len, texts)) + len(texts)
        if self.produced > MAX_CHARS:
            raise InputError(f"{self.source}: its variables stand for more than {MAX_CHARS} characters")
        return texts

    def _expanded(self, text: str, line: int) -> list[str]:
        """A text with its variables filled in; a whole array where it is nothing but one."""
        whole = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\$(\w+)", text)
        if whole and (values := self.variables.get(whole[1] or whole[2])) is not None:
            return values
        found, at = "", 0
        while at < len(text):
            if text[at] != "$" or at + 1 == len(text):
                found += text[at]
                at += 1
                continue
            if text.startswith("$((", at) and (end := _closing(text, at + 1)) is not None:
                found += self._arithmetic(text[at + 3 : end - 1], line)
            elif text[at + 1] in "({" and (end := _closing(text, at + 1)) is not None:
                found += self._braced(text[at : end + 1], line)
            elif match := _NAME.match(text, at + 1):
                end = match.end() - 1
                found += self._value(match[0], line, text[at : match.end()])
            elif text[at + 1].isdigit() or text[at + 1] in "@*#?!":
                end = at + 1
                found += self._open(text[at : at + 2], line)
            else:
                end = at
                found += "$"
            if len(found) > MAX_CHARS:
                raise InputError(f"{self.source}, line {line}: stands for more than {MAX_CHARS} characters")
            at = end + 1
        return [found]

    def _braced(self, text: str, line: int) -> str:
        inside = text[2:-1]
        if text[1] == "(":
            return self._open(text, line)
        match = re.fullmatch(r"(\w+)(?:\[[@*]\])?(?:(:?[-=])(.*))?", inside, re.DOTALL)
        if match is None:
            return self._open(text, line)
        name, sign, default = match[1], match[2], match[3]
        values = self.variables.get(name)
        is_there = values is not None and (" ".join(values) != "" or not (sign or "").startswith(":"))
        if sign and not is_there:
            return " ".join(self._expanded(default, line))
        return self._value(name, line, text)

    def _value(self, name: str, line: int, text: str) -> str:
        values = self.variables.get(name)
        return self._open(text, line) if values is None else " ".join(values)

    def _open(self, text: str, line: int) -> str:
        self.script.open_names.setdefault(text, line)
        return text

    def _arithmetic(self, text: str, line: int) -> str:
        filled = "".join(self._expanded(re.sub(r"(?<![\w${])([A-Za-z_]\w*)", r"${\1}", text), line))
        result = _whole(filled)
        return str(result) if result is not None else self._open(f"$(({text}))", line)

    def _test(self, words: Sequence[Word]) -> bool | None:
        """Whether ``[ a = b ]`` and its like hold; None where a side is open."""
        texts = [" ".join(self._filled(word, splits=False)) for word in words]
        if texts and texts[0] in ("[", "[[", "test"):
            texts = texts[1:-1] if texts[-1] in ("]", "]]") else texts[1:]
        if any("$" in text for text in texts):
            return None
        if len(texts) == 2 and texts[0] in ("-z", "-n"):
            return (texts[1] == "") == (texts[0] == "-z")
        if len(texts) != 3:
            return None
        left, sign, right = texts
        if sign in ("=", "==", "!="):
            return (left == right) == (sign != "!=")
        numbers = [_whole(left), _whole(right)]
        if None in numbers:
            return None
        a, b = numbers
        assert a is not None and b is not None
        answers = {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-ge": a >= b, "-lt": a < b, "-le": a <= b}
        return answers.get(sign)


def _is_operator(word: Word) -> bool:
    return len(word.pieces) == 1 and word.pieces[0] in {(op, False, True) for op in (*_ENDS, "(", ")")}


def _whole(text: str) -> int | None:
    """The value of whole numbers with + - * / % between them and brackets around; None of anything else.

    >>> _whole("2 * (3 + 4)"), _whole("8 / 3"), _whole("import os")
    (14, 2, None)
    """
    tokens = re.findall(r"\d+|[-+*/%()]", text)
    if "".join(tokens) != re.sub(r"\s", "", text) or not tokens or len(tokens) > 200:
        return None
    if any(len(token) > 18 for token in tokens):
        return None
    place = 0

    def sum_(depth: int) -> int:
        nonlocal place
        total = product(depth)
        while place < len(tokens) and tokens[place] in "+-":
            sign = 1 if tokens[place] == "+" else -1
            place += 1
            total += sign * product(depth)
        return total

    def product(depth: int) -> int:
        nonlocal place
        total = factor(depth)
        while place < len(tokens) and tokens[place] in "*/%":
            sign = tokens[place]
            place += 1
            other = factor(depth)
            total = total * other if sign == "*" else total // other if sign == "/" else total % other
            if abs(total) > 10**18:
                raise ValueError
        return total

    def factor(depth: int) -> int:
        nonlocal place
        if depth > 20 or place >= len(tokens):
            raise ValueError
        token = tokens[place]
        place += 1
        if token == "-":
            return -factor(depth + 1)
        if token == "(":
            inside = sum_(depth + 1)
            if place >= len(tokens) or tokens[place] != ")":
                raise ValueError
            place += 1
            return inside
        return int(token)

    try:
        result = sum_(0)
    except (ValueError, ZeroDivisionError):
        return None
    return result if place == len(tokens) else None


def flags(words: Sequence[tuple[str, int | None]]) -> Iterator[Entry]:
    """Flags with their values: none is True, one is text, several are a list.

    >>> [(entry.key, entry.value) for entry in flags([("--bf16", 1), ("--tp", 1), ("2", 1), ("--lr=-1", 1)])]
    [('--bf16', True), ('--tp', '2'), ('--lr', '-1')]
    """
    key: str | None = None
    values: list[str] = []
    at: int | None = None
    for text, line in words:
        name, equals, value = text.partition("=")
        if _FLAG.fullmatch(name) and (text.startswith("--") or key is None or not equals):
            if key is not None:
                yield _entry(key, values, at)
            key, values, at = name, [value] if equals else [], line
        elif key is not None:
            values.append(text)
    if key is not None:
        yield _entry(key, values, at)


def _entry(key: str, values: list[str], line: int | None) -> Entry:
    return Entry(key=key, value=True if not values else values[0] if len(values) == 1 else list(values), line=line)
