"""Measures a training step of the same Mamba in `transformers`, on the CPU. Arguments: layers, width, batch, bytes, rounds."""

import resource
import statistics
import sys
import time

import torch
from transformers import MambaConfig, MambaForCausalLM

layers, width, batch, length, rounds = map(int, sys.argv[1:])
torch.set_num_threads(torch.get_num_threads())
torch.manual_seed(1)
config = MambaConfig(
    vocab_size=256, hidden_size=width, num_hidden_layers=layers, state_size=16, expand=2, conv_kernel=4,
    time_step_rank=-(-2 * width // 16), tie_word_embeddings=True, use_cache=False,
)
model = MambaForCausalLM(config)
adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
times = []
for step in range(rounds + 1):
    tokens = torch.randint(0, 256, (batch, length))
    start = time.perf_counter()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    adam.step()
    adam.zero_grad()
    times.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
print(f"| transformers, {torch.get_num_threads()} threads | {statistics.median(times[1:]) * 1e3:.1f} ms | {peak / 1e3:.1f} MB of the process |")
