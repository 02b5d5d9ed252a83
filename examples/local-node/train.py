"""A Python function trained on two "nodes" of this machine, by the Kubeflow SDK.

pip install kubeflow jax
quarterdeck up --local-node --detach
kubectl apply -f examples/local-node/1-runtime.yaml
python examples/local-node/train.py
"""

from kubeflow.trainer import CustomTrainer, TrainerClient


def add_up() -> None:
    """Runs in each pod: joins the others and sums a vector over them."""
    import os

    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    mine = jnp.ones(4) * (jax.process_index() + 1)
    total = multihost_utils.process_allgather(mine).sum(axis=0)
    print(f"process {jax.process_index()} of {jax.process_count()}: sum {total.tolist()}", flush=True)


def main() -> None:
    client = TrainerClient()
    name = client.train(runtime="jax-distributed", trainer=CustomTrainer(func=add_up, num_nodes=2))
    job = client.wait_for_job_status(name, status={"Complete", "Failed"}, polling_interval=1)
    print(name, job.status)
    for step in ("node-0", "node-1"):
        print("".join(client.get_job_logs(name, step=step)))


if __name__ == "__main__":
    main()
