cd /shared/bridge
./scripts/conversion/convert.sh import \
    --executor slurm \
    --device gpu \
    --nodes 1 \
    --gpus-per-node 8 \
    --account vision \
    --partition gpu \
    --container-image /shared/megatron-bridge.sqsh \
    --mount /shared/root \
    --mount /shared/bridge:/opt/Megatron-Bridge \
    --hf-model /shared/root/hf \
    --megatron-path /shared/root/models/qwen3.6-35b-a3b-megatron \
    --torch-dtype bfloat16 \
    --tp 1 \
    --pp 1 \
    --ep 8 \
    --etp 1 \
    --overwrite
