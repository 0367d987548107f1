#!/bin/bash
# a launch script: variables, an array, a test, a default of the environment
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
MODEL_SIZE=8B
if [[ $MODEL_SIZE == "1B" ]]; then
    HIDDEN=2048
elif [[ $MODEL_SIZE == "8B" ]]; then
    HIDDEN=4096
else
    echo "unknown"; exit 1
fi
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr localhost
)
MODEL_ARGS="--num-layers 32 --hidden-size $HIDDEN --ffn-hidden-size 14336 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 \
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
  --untie-embeddings-and-output-weights --vocab-size 128256 --hidden-dropout 0 --attention-dropout 0"
TRAIN_ARGS=(--micro-batch-size 1 --global-batch-size 128 --bf16 --lr 3e-4)
TRAIN_ARGS+=(--recompute-granularity full --recompute-method block --recompute-num-layers 2)
cat > notes.txt <<EOF
torchrun nothing.py --num-layers 1
EOF
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py $MODEL_ARGS "${TRAIN_ARGS[@]}" \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 \
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --no-rope-fusion --save $CHECKPOINTS --frobnicate 3
