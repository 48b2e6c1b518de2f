"""What a trainer waits for beside data, by real libraries: each function gives a function that is
called once a step. The time inside it is the job's truth, as the fetch is for a loader.
"""

import os
import subprocess
import sys
import tempfile

MEGABYTES = 96


def weights():
    import torch

    return {f"layer{index}": torch.randn(1 << 18) for index in range(MEGABYTES)}


def checkpoint_torch(folder):
    import torch

    state = weights()
    return lambda: torch.save(state, os.path.join(folder, "model.pt"))


def checkpoint_dcp(folder):
    import torch.distributed.checkpoint as dcp

    state = weights()
    return lambda: dcp.save(state, checkpoint_id=os.path.join(folder, "dcp"))


def checkpoint_safetensors(folder):
    from safetensors.torch import save_file

    state = weights()
    return lambda: save_file(state, os.path.join(folder, "model.safetensors"))


def checkpoint_orbax(folder):
    import numpy
    import orbax.checkpoint as ocp

    state = {f"layer{index}": numpy.random.rand(1 << 18).astype("float32") for index in range(MEGABYTES)}
    checkpointer = ocp.PyTreeCheckpointer()
    return lambda: checkpointer.save(os.path.join(folder, "orbax"), state, force=True)


def peer(code, folder):
    """Starts the other rank, a slow one, as a process that is not this one's child."""
    script = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{RANK}\n{code}"
    environment = {**os.environ, "RENDEZVOUS": folder, "PEER": str(os.getpid())}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


RANK = """
import os, sys, time, torch
import torch.distributed as dist
def start(rank):
    dist.init_process_group("gloo", init_method="file://" + os.environ["RENDEZVOUS"] + "/rank", rank=rank, world_size=2)
def alive():
    try:
        os.kill(int(os.environ["PEER"]), 0)
    except OSError:
        os._exit(0)
    return True
"""


def joined(folder):
    """This process as rank 0 of two."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/rank", rank=0, world_size=2)
    return dist


def collective_gloo(_):
    folder = tempfile.mkdtemp()
    peer("start(1)\nt = torch.ones(1 << 18)\nwhile alive():\n    time.sleep(0.05)\n    dist.all_reduce(t)\n", folder)
    dist = joined(folder)
    import torch

    gradient = torch.ones(1 << 18)
    return lambda: dist.all_reduce(gradient)


def pipeline_gloo(_):
    folder = tempfile.mkdtemp()
    peer("start(1)\nt = torch.ones(1 << 18)\nwhile alive():\n    time.sleep(0.05)\n    dist.send(t, 0)\n", folder)
    dist = joined(folder)
    import torch

    activations = torch.ones(1 << 18)
    return lambda: dist.recv(activations, 1)


def offload_deepspeed(_):
    """DeepSpeed's optimizer for state on the host, which it compiles at first use."""
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    parameters = [torch.nn.Parameter(torch.randn(1 << 22)) for _ in range(8)]
    for parameter in parameters:
        parameter.grad = torch.randn(1 << 22)
    optimizer = DeepSpeedCPUAdam(parameters, lr=1e-3)
    return optimizer.step


def embedding_torch(_):
    import torch

    table = torch.nn.EmbeddingBag(2_000_000, 64)
    rows = torch.randint(0, 2_000_000, (4096, 50))

    def look_up():
        with torch.no_grad():
            return table(rows)

    return look_up
