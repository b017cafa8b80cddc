cd /shared/bridge
./scripts/training/train.sh \
    --nodes 2 \
    --gpus-per-node 8 \
    --account vision \
    --partition gpu \
    --container-image /shared/megatron-bridge.sqsh \
    --time 1-00:00:00 \
    --mount /shared/root \
    --mount /shared/bridge:/opt/Megatron-Bridge \
    --mount /scratch:/data \
    --mount /cache \
    --env HF_TOKEN \
    --env WANDB_API_KEY \
    --srun-arg=--mpi=pmix \
    --srun-arg=--no-container-mount-home \
    --recipe qwen3_vl_8b_peft_config \
    --mode lora \
    --dataset energon \
    --step-func vlm_step \
    --pretrained_checkpoint /shared/root/models/qwen3.6-35b-a3b-megatron/iter_0000000 \
    --max_steps 1000 \
    --save_dir /shared/root/training/qwen3.6-35b-a3b/checkpoints \
    --save_interval 500 \
    train.global_batch_size=512 \
    train.micro_batch_size=2 \
    dataset.micro_batch_size=2 \
    dataset.path=/data/energon \
    dataset.task_encoder.hf_processor_path=Qwen/Qwen3-VL-8B-Instruct \
    dataset.task_encoder.hf_processor_revision=995ad96eacd98c81ed38be0c5b274b04031597b0 \
    dataset.do_validation=true \
    dataset.do_test=false \
    dataset.enable_in_batch_packing=false \
    dataset.defer_in_batch_packing_to_step=true \
    model.hf_model_id=Qwen/Qwen3-VL-8B-Instruct \
    model.bos_token_id=248044 \
    model.eos_token_id=248044 \
    checkpoint.hf_source_path=Qwen/Qwen3-VL-8B-Instruct \
    checkpoint.load=null \
    logger.save_config_filepath=/shared/root/training/qwen3.6-35b-a3b/resolved-config.yaml \
    model.tensor_model_parallel_size=2 \
    model.pipeline_model_parallel_size=1 \
    model.context_parallel_size=1 \
    model.expert_model_parallel_size=1 \
    model.expert_tensor_parallel_size=1 \
    validation.eval_interval=100 \
    validation.eval_iters=8 \
    logger.log_interval=10
