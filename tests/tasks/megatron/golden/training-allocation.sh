srun \
    --nodes=1 \
    --ntasks=8 \
    --ntasks-per-node=8 \
    --wait=60 \
    --kill-on-bad-exit=1 \
    --cpus-per-task=12 \
    --container-image=/shared/megatron-bridge.sqsh \
    --container-mounts=/shared/root:/shared/root,/shared/bridge:/opt/Megatron-Bridge \
    --container-env=PYTHONPATH \
    --mpi=pmix \
    python /opt/Megatron-Bridge/scripts/training/run_recipe.py \
    --recipe qwen35_vl_35b_a3b_pretrain_mock_config \
    --mode pretrain \
    --dataset energon \
    --step-func qwen3_vl_step \
    --pretrained_checkpoint /shared/root/models/qwen3.6-35b-a3b-megatron/iter_0000000 \
    --max_steps 1000 \
    --save_dir /shared/root/training/qwen3.6-35b-a3b/checkpoints \
    --save_interval 500 \
    train.global_batch_size=512 \
    train.micro_batch_size=1 \
    dataset.micro_batch_size=1 \
    dataset.path=/shared/root/energon \
    dataset.task_encoder.hf_processor_path=Qwen/Qwen3.6-35B-A3B \
    dataset.task_encoder.hf_processor_revision=995ad96eacd98c81ed38be0c5b274b04031597b0 \
    dataset.do_validation=true \
    dataset.do_test=false \
    dataset.enable_in_batch_packing=false \
    dataset.defer_in_batch_packing_to_step=true \
    model.hf_model_id=Qwen/Qwen3.6-35B-A3B \
    model.bos_token_id=248044 \
    model.eos_token_id=248044 \
    checkpoint.hf_source_path=Qwen/Qwen3.6-35B-A3B \
    checkpoint.load=null \
    logger.save_config_filepath=/shared/root/training/qwen3.6-35b-a3b/resolved-config.yaml
