"""Names of real kernels and what they do."""

from __future__ import annotations

import pytest

from proteus.traces.kinds import KernelKind, kind_of_collective, kind_of_copy, kind_of_kernel

NAMES: dict[str, tuple[str, ...]] = {
    "gemm": (
        "volta_sgemm_128x32_nt",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x4_tn",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(cutlass_80_tensorop_s1688gemm)",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(int)",
        "triton_tem_fused_addmm_3",
    ),
    "attention": (
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >(Params)",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwd> > >()",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_128x128x128_4x1x1_kernel0_0",
    ),
    "norm": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
        "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Traits>(Params)",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float>(long)",
    ),
    "softmax": ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, true, false>(float*)",),
    "elementwise": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor > >()",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>(int)",
        "triton_poi_fused_add_mul_silu_7",
    ),
    "reduction": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor<float> > >()",
        "triton_red_fused_sum_2",
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor>()",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctorMaster<float> >(long)",
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<c10::Half, float>()",
    ),
    "convolution": (
        "volta_scudnn_128x128_stridedB_splitK_medium_nn_v1",
        "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
    ),
    "embedding": ("void at::native::(anonymous namespace)::indexSelectLargeIndex_embedding<float>(int)",),
    "indexing": (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 128, 1>(float*)",
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800>(int)",
    ),
    "all_reduce": (
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    ),
    "all_gather": ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", "ncclKernel_AllGather_RING_LL_Sum_int8_t()"),
    "reduce_scatter": ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*)",),
    "send_recv": ("ncclDevKernel_SendRecv(ncclDevComm*)", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t()"),
    "broadcast": ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",),
    "reduce": ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevComm*)",),
    "unknown_comm": ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "rcclGenericKernel<1, false>()"),
    "copy_kernel": ("__amd_rocclr_copyBuffer.kd", "__amd_rocclr_fillBufferAligned"),
    "unknown": ("my_kernel(float*)", "compute_all_the_things"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_names(kind: str, name: str) -> None:
    assert kind_of_kernel(name).label == kind


def test_copies() -> None:
    assert kind_of_copy("Memcpy DtoD (Device -> Device)") == KernelKind.COPY
    assert kind_of_copy("Memset (Device)") == KernelKind.MEMSET


def test_every_kind_is_of_one_class() -> None:
    for kind in KernelKind:
        assert kind.is_compute + kind.is_comm + (kind in (KernelKind.COPY, KernelKind.MEMSET)) == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl:all_reduce", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("nccl:reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("nccl:all_to_all", "all_to_all"),
        ("nccl:send 0->1", "send_recv"),
        ("nccl:recv 0<-1", "send_recv"),
        ("broadcast", "broadcast"),
        ("alltoallv", "all_to_all"),
    ],
)
def test_collectives(name: str, kind: str) -> None:
    told = kind_of_collective(name)
    assert told is not None and told.label == kind


def test_a_hostile_name_costs_no_time() -> None:
    import time

    begin = time.perf_counter()
    kind_of_kernel("cudnn" * 200_000)
    kind_of_kernel("_ub_" * 200_000)
    assert time.perf_counter() - begin < 0.5
