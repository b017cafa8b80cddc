srun \
    --nodes=1 \
    --ntasks=8 \
    --ntasks-per-node=8 \
    --wait=60 \
    --kill-on-bad-exit=1 \
    --container-image=/shared/megatron-bridge.sqsh \
    --container-mounts=/shared/root:/shared/root,/shared/bridge:/opt/Megatron-Bridge \
    --container-env=HF_TOKEN,PYTHONPATH \
    python /opt/Megatron-Bridge/scripts/conversion/run_conversion.py import \
    --device gpu \
    --hf-model Qwen/Qwen3.6-35B-A3B \
    --hf-revision 995ad96eacd98c81ed38be0c5b274b04031597b0 \
    --megatron-path /shared/root/models/qwen3.6-35b-a3b-megatron \
    --torch-dtype bfloat16 \
    --tp 2 \
    --pp 1 \
    --ep 4 \
    --etp 1
