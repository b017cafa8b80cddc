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
    --hf-model Qwen/Qwen3.6-35B-A3B \
    --hf-revision 995ad96eacd98c81ed38be0c5b274b04031597b0 \
    --megatron-path /shared/root/models/qwen3.6-35b-a3b-megatron \
    --torch-dtype bfloat16 \
    --tp 2 \
    --pp 1 \
    --ep 4 \
    --etp 1
