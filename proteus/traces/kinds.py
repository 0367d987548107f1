"""What a kernel does, told by its name.

Every row of the tables says where the names come from.  The first row that
matches counts; what no row matches is `unknown` and listed with its share of
the time, never counted as something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum


class KernelKind(IntEnum):
    """Kinds of device events: computation, then communication, then copies.

    The order of communication is the one in which exposed time is counted
    where two collectives run side by side.  A copy by a kernel runs where
    computation does and counts as such, as in HolisticTraceAnalysis.
    """

    GEMM = 0
    ATTENTION = 1
    CONVOLUTION = 2
    NORM = 3
    SOFTMAX = 4
    ELEMENTWISE = 5
    REDUCTION = 6
    OPTIMIZER = 7
    EMBEDDING = 8
    INDEXING = 9
    POOLING = 10
    FFT = 11
    RANDOM = 12
    QUANTIZE = 13
    ROUTING = 14
    COPY_KERNEL = 15
    UNKNOWN = 16
    ALL_REDUCE = 17
    ALL_GATHER = 18
    REDUCE_SCATTER = 19
    ALL_TO_ALL = 20
    SEND_RECV = 21
    BROADCAST = 22
    REDUCE = 23
    GATHER = 24
    SCATTER = 25
    UNKNOWN_COMM = 26
    COPY = 27
    MEMSET = 28

    @property
    def label(self) -> str:
        """The name in tables and JSON: ``all_reduce``."""
        return self.name.lower()

    @property
    def is_compute(self) -> bool:
        return self <= KernelKind.UNKNOWN

    @property
    def is_comm(self) -> bool:
        return KernelKind.UNKNOWN < self < KernelKind.COPY


#: (what the name holds, kind, source of the names)
_COMM = (
    # NCCL: ncclDevKernel_AllReduce_Sum_f32_RING_LL; before 2.19: ncclKernel_AllReduce_RING_LL_Sum_float.
    # RCCL has the same names, and some (mscclKernel_, ncclDevKernel_Generic) that do not tell the collective.
    (r"nccl(Dev)?Kernel_?AllReduce", KernelKind.ALL_REDUCE, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?AllGather", KernelKind.ALL_GATHER, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?ReduceScatter", KernelKind.REDUCE_SCATTER, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?(AllToAll|Alltoall)", KernelKind.ALL_TO_ALL, "RCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?(SendRecv|Send|Recv)", KernelKind.SEND_RECV, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?Broadcast", KernelKind.BROADCAST, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?Reduce(?!Scatter)", KernelKind.REDUCE, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?Gather", KernelKind.GATHER, "NCCL src/device/generate.py"),
    (r"nccl(Dev)?Kernel_?Scatter", KernelKind.SCATTER, "NCCL src/device/generate.py"),
    (r"^(void )?(nccl|rccl|msccl)", KernelKind.UNKNOWN_COMM, "RCCL src/device/common.cu: ncclDevKernel_Generic"),
    (r"cross_device_reduce|(one|two)_shot_all_reduce|multimem_all_reduce", KernelKind.ALL_REDUCE,
     "vLLM csrc/custom_all_reduce.cuh; PyTorch csrc/distributed/c10d/CUDASymmetricMemoryOps.cu"),
    (r"multimem_all_gather", KernelKind.ALL_GATHER, "PyTorch csrc/distributed/c10d/CUDASymmetricMemoryOps.cu"),
    (r"deep_ep::(inter|intra)node::(dispatch|combine|cached_notify|notify)|deep_ep::internode_ll::",
     KernelKind.ALL_TO_ALL, "DeepEP csrc/kernels"),
    (r"userbuffers|_ub_.*(allgather|ag_)", KernelKind.UNKNOWN_COMM, "TransformerEngine common/comm_gemm_overlap"),
)  # fmt: skip
_COPY = (
    (r"^Memset", KernelKind.MEMSET, "Kineto libkineto/src/CuptiActivity.cpp"),
    (r"^Memcpy|^Copy(Device|Host)To", KernelKind.COPY, "Kineto libkineto/src/CuptiActivity.cpp, RoctracerActivity"),
)
_COMPUTE = (
    (r"__amd_rocclr_(copy|fill)", KernelKind.COPY_KERNEL, "ROCclr device/blitcl.cpp"),
    # before GEMM: fused attention contains "gemm" in its template arguments
    (r"flash::|flash_(fwd|bwd|attn)|FlashAttn|fmha|mha_(fwd|bwd|fprop|dgrad)|_attention_|paged_attention|PyTorchMemEffAttention"
     r"|AttentionKernel|AttentionBackwardKernel|attn_(fwd|bwd)|_attn_|cudnn.*sdpa|flex_attention|fused_attention|aiter::f?mha",
     KernelKind.ATTENTION, "FlashAttention csrc; PyTorch aten/src/ATen/native/transformers/cuda; cuDNN; AITER"),
    (r"softmax|SoftMax", KernelKind.SOFTMAX,
     "PyTorch aten/src/ATen/native/cuda/SoftMax.cu; Megatron-Core fused_softmax"),
    (r"layer_?norm|LayerNorm|rms_?norm|RMSNorm|RowwiseMoments|GammaBeta|batch_?norm|BatchNorm|bn_(fw|bw)|group_?norm|GroupNorm"
     r"|ln_(fwd|bwd)|rmsnorm_(fwd|bwd)|::normalization::|WelfordOps|l2norm|ComputeInternalGradients|MIOpenBatchNorm"
     r"|ComputeGradientFusedParams|compute_grad_input",
     KernelKind.NORM, "PyTorch aten/src/ATen/native/cuda/layer_norm_kernel.cu; Apex csrc; TransformerEngine; cuDNN"),
    (r"multi_tensor_apply|MultiTensorApply|[Aa]dam|fused_sgd|FusedSgd|adagrad|Adagrad|lamb_|LAMB|_foreach_|optimizer|multi_tensor_(l2norm|scale)",
     KernelKind.OPTIMIZER, "PyTorch aten/src/ATen/native/cuda/MultiTensorApply.cuh; Apex csrc; FBGEMM optimizers"),
    (r"embedding|Embedding|embs_kernel|bounds_check_indices|linearize_index|jagged|permute_\dD|block_bucketize|fbgemm_gpu::(?!.*(FP8|hfp8|quantize))",
     KernelKind.EMBEDDING, "PyTorch aten/src/ATen/native/cuda/Embedding.cu; FBGEMM fbgemm_gpu/src"),
    (r"quantize|FP8|fp8_cast|hfp8|cast_transpose|_amax|amax_", KernelKind.QUANTIZE,
     "FBGEMM fbgemm_gpu/src/quantize_ops; TransformerEngine common/cast"),
    (r"topk_gating|moe_|_moe|permute_kernel|unpermute|router|expert_", KernelKind.ROUTING,
     "TransformerEngine common/permutation; Megatron-Core moe; vLLM csrc/moe"),
    (r"conv(?!ert)|Conv(?!ert)|_fprop_|_dgrad_|_wgrad_|dgrad_engine|wgrad_alg|dgrad\dd|wgrad\dd|scudnn|cudnn_.*(gemm|cudnn)|winograd"
     r"|computeOffsetsKernel|implicit_gemm|depthwise|im2col|col2im|nchwToNhwc|nhwcToNchw|nchwToFolded|miopenSp3|igemm_(fwd|bwd|wrw)|SubTensorOp"
     r"|cudnn::(cnn|ops|winograd)", KernelKind.CONVOLUTION, "cuDNN; MIOpen src/kernels"),
    (r"gemm|GEMM|Gemm|^cutlass|xmma_|Cijk_|nvjet|cublas|gemv|splitK|matmul|dot_kernel|hipblaslt|_mm_|wgmma|epilogue::impl|DeepGemm|s\d{3,5}cudnn",
     KernelKind.GEMM, "cuBLAS, CUTLASS, nvjet (cuBLAS 12.6+), Tensile (Cijk_), DeepGEMM; epilogue of cublasLt"),
    (r"max_pool|avg_pool|average_pool|pooling|Pooling|upsample|interpolate", KernelKind.POOLING,
     "PyTorch aten/src/ATen/native/cuda/*Pool*.cu, UpSample*.cu; cuDNN"),
    (r"\bfft|fft\dd|_fft_|regular_fft|vector_fft", KernelKind.FFT, "cuFFT; cuDNN fft2d"),
    (r"distribution_elementwise|philox|curand|rocrand|dropout|random_|bernoulli|multinomial", KernelKind.RANDOM,
     "PyTorch aten/src/ATen/native/cuda/Distribution*.cu, Dropout.cu"),
    (r"index_|Index|indexing|gather|scatter|CatArrayBatchedCopy|cub::|thrust::|rocprim|sort|Sort|radix|topk|topK|unique|nonzero|masked|where_kernel|take_"
     r"|segment|[Ss]can|tensor_kernel_scan|roll_|flip|triu|tril|asynchronous_complete_cumsum",
     KernelKind.INDEXING, "PyTorch aten/src/ATen/native/cuda/Indexing.cu, Shape.cu; CUB; Thrust; rocPRIM"),
    (r"reduce_kernel|ReduceOp|reduction|reduce_1Block|triton_(red|per)_|nll_loss|cross_entropy|NLLLoss|_loss_|lpnorm|[Nn]ormTwoOps|cunn_",
     KernelKind.REDUCTION, "PyTorch aten/src/ATen/native/cuda/Reduce.cuh, Loss.cu; Inductor triton_red_, triton_per_"),
    (r"elementwise|FillFunctor|CUDAFunctor|copy_kernel|triton_poi_|fused_bias|bias_(gelu|swiglu|dropout)|swiglu|silu|gelu|geglu|rotary|rope|activation"
     r"|transpose|addcmul|lerp|op_tensor|OpTensor|op_generic_tensor|scalePackedTensor|tensorTransform|add_tensor|amp_|unrolled|elemwise|arange"
     r"|kernelPointwiseApply|clamp|cast_kernel|vectorized_|fused_relu|threshold",
     KernelKind.ELEMENTWISE,
     "PyTorch aten/src/ATen/native/cuda/CUDALoops.cuh; Inductor triton_poi_; TransformerEngine; cuDNN"),
    (r"triton_(tem|mm)_", KernelKind.GEMM, "PyTorch torch/_inductor: triton_tem_"),
)  # fmt: skip

_TABLES = {
    "comm": [(re.compile(pattern), kind) for pattern, kind, _ in _COMM],
    "copy": [(re.compile(pattern), kind) for pattern, kind, _ in _COPY],
    "compute": [(re.compile(pattern), kind) for pattern, kind, _ in _COMPUTE],
}
#: characters; a template name of 100 kB tells no more
_MAX_NAME = 2000

#: words of host annotations and of ``Collective name`` → kind; PyTorch csrc/distributed/c10d/ProcessGroupNCCL.cpp
_COLLECTIVES = (
    ("reduce_scatter", KernelKind.REDUCE_SCATTER),
    ("all_reduce", KernelKind.ALL_REDUCE),
    ("allreduce", KernelKind.ALL_REDUCE),
    ("all_gather", KernelKind.ALL_GATHER),
    ("allgather", KernelKind.ALL_GATHER),
    ("all_to_all", KernelKind.ALL_TO_ALL),
    ("alltoall", KernelKind.ALL_TO_ALL),
    ("broadcast", KernelKind.BROADCAST),
    ("gather", KernelKind.GATHER),
    ("scatter", KernelKind.SCATTER),
    ("reduce", KernelKind.REDUCE),
    ("send", KernelKind.SEND_RECV),
    ("recv", KernelKind.SEND_RECV),
    ("coalesced", KernelKind.SEND_RECV),
)


def kind_of_kernel(name: str) -> KernelKind:
    """The kind of a kernel.

    >>> kind_of_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)").label
    'all_reduce'
    >>> kind_of_kernel("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn").label
    'gemm'
    >>> kind_of_kernel("my_kernel").label
    'unknown'
    """
    return _first(name, ("comm", "copy", "compute"), KernelKind.UNKNOWN)


def kind_of_copy(name: str) -> KernelKind:
    """The kind of an event that the profiler calls a copy or a memset."""
    return _first(name, ("copy",), KernelKind.COPY)


def _first(name: str, tables: Iterable[str], otherwise: KernelKind) -> KernelKind:
    for table in tables:
        for pattern, kind in _TABLES[table]:
            if pattern.search(name, 0, _MAX_NAME):
                return kind
    return otherwise


def kind_of_collective(name: str) -> KernelKind | None:
    """The collective that ``nccl:all_to_all`` or the metadata ``_allgather_base`` names; None where it names none.

    >>> kind_of_collective("nccl:_reduce_scatter_base").label, kind_of_collective("aten::add")
    ('reduce_scatter', None)
    """
    lowered = name.lower()
    return next((kind for word, kind in _COLLECTIVES if word in lowered), None)
