#!/usr/bin/env python3
"""Writes tiny models of torch and transformers with their expected results (see README.md).

    python make.py            writes every file
    python make.py mamba      writes the files of one model
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import save_file

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
VOCABULARY, BATCH, STEPS = 32, 2, 12

# Each model has two or three layers and, where it has heads or groups, more than one of them. Sizes that need not be
# equal have different values.
MODELS = {
    "mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(
            vocab_size=VOCABULARY, hidden_size=16, state_size=5, num_hidden_layers=2, expand=2, conv_kernel=4, time_step_rank=3
        )
    ),
    "mamba2": lambda: hf.Mamba2ForCausalLM(
        hf.Mamba2Config(
            vocab_size=VOCABULARY, hidden_size=16, num_heads=4, head_dim=8, expand=2, state_size=5, n_groups=2,
            num_hidden_layers=2, conv_kernel=4, chunk_size=4,
        )
    ),
    "recurrent_gemma": lambda: hf.RecurrentGemmaForCausalLM(
        hf.RecurrentGemmaConfig(
            vocab_size=VOCABULARY, hidden_size=16, lru_width=24, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, intermediate_size=48, num_hidden_layers=3, block_types=["recurrent", "recurrent", "attention"],
            conv1d_width=4, attention_window_size=5,
        )
    ),
    "xlstm": lambda: hf.xLSTMForCausalLM(
        hf.xLSTMConfig(
            vocab_size=VOCABULARY, hidden_size=16, num_heads=2, num_hidden_layers=2, chunk_size=4, mode="train",
            ffn_round_up_to_multiple_of=8,
        )
    ),
    "rwkv": lambda: hf.RwkvForCausalLM(
        hf.RwkvConfig(
            vocab_size=VOCABULARY, hidden_size=16, attention_hidden_size=24, intermediate_size=40, num_hidden_layers=2,
            rescale_every=0,
        )
    ),
}

# A single mixer, as transformers defines it.
def gated_delta_net():
    config = hf.OlmoHybridConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=2, num_hidden_layers=2, pad_token_id=0,
        layer_types=["linear_attention", "full_attention"], linear_key_head_dim=4, linear_value_head_dim=6,
    )
    return hf.OlmoHybridForCausalLM(config).model.layers[0].linear_attn


FEATURES, HIDDEN = 3, 4
LAYERS = {
    "rnn": lambda: torch.nn.RNN(FEATURES, HIDDEN, batch_first=True),
    "relu_rnn": lambda: torch.nn.RNN(FEATURES, HIDDEN, nonlinearity="relu", batch_first=True),
    "gru": lambda: torch.nn.GRU(FEATURES, HIDDEN, batch_first=True),
    "lstm": lambda: torch.nn.LSTM(FEATURES, HIDDEN, batch_first=True),
    "lstm_without_bias": lambda: torch.nn.LSTM(FEATURES, HIDDEN, bias=False, batch_first=True),
    "rnn_stacked": lambda: torch.nn.RNN(FEATURES, HIDDEN, 2, bidirectional=True, batch_first=True),
    "gru_stacked": lambda: torch.nn.GRU(FEATURES, HIDDEN, 2, bidirectional=True, batch_first=True),
    "lstm_stacked": lambda: torch.nn.LSTM(FEATURES, HIDDEN, 2, bidirectional=True, batch_first=True),
}


def disturb(model):
    """Disturbs weights as training would, so that matrices matter, biases are not 0 and scales are not 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2 and name.endswith("weight"):
                p.normal_(std=p.shape[1] ** -0.5)
            else:
                p.add_(0.1 * torch.randn_like(p))


def weights(model):
    """Returns the state dict as files store it, in which a tensor with two names occurs only once."""
    names = {}
    for name, tensor in model.state_dict().items():
        names.setdefault(tensor.data_ptr(), (name, tensor))
    return {name: tensor.detach().contiguous() for name, tensor in names.values()}


def gradients(loss, named):
    names, tensors = zip(*named)
    return {f"grad.{name}": g.contiguous() for name, g in zip(names, torch.autograd.grad(loss, tensors))}


def model(name):
    torch.manual_seed(1)
    net = MODELS[name]()
    disturb(net)
    net.train()
    tokens = torch.randint(1, VOCABULARY, (BATCH, STEPS))
    logits = net(input_ids=tokens, use_cache=False).logits
    ct = torch.randn_like(logits)
    found = {"tokens": tokens, "logits": logits.detach().contiguous(), "ct": ct}
    found |= gradients((logits * ct).sum(), net.named_parameters())
    net.eval()
    assert torch.allclose(net(input_ids=tokens, use_cache=False).logits, logits, atol=1e-5)
    return weights(net), found


def mixer():
    """Writes the gated delta net of OLMo Hybrid, whose files have separate convolutions for queries, keys and values."""
    torch.manual_seed(3)
    net = gated_delta_net()
    disturb(net)
    xs = torch.randn(BATCH, STEPS, 16, requires_grad=True)
    ys = net(xs)
    ct = torch.randn_like(ys)
    found = {"xs": xs.detach(), "ys": ys.detach().contiguous(), "ct.ys": ct}
    found |= gradients((ys * ct).sum(), [("xs", xs), *net.named_parameters()])

    def as_in_files(tensors, prefix):
        joined = tensors.pop(f"{prefix}conv1d.weight").split([net.key_dim, net.key_dim, net.value_dim])
        return tensors | {f"{prefix}{name}_conv1d.weight": part.clone() for name, part in zip("qkv", joined)}

    return as_in_files(weights(net), ""), as_in_files(found, "grad.")


def layers():
    torch.manual_seed(2)
    net = torch.nn.ModuleDict({name: make() for name, make in LAYERS.items()})
    found = {}
    for name, layer in net.items():
        rows = layer.num_layers * (2 if layer.bidirectional else 1)
        xs = torch.randn(BATCH, STEPS, FEATURES, requires_grad=True)
        states = [torch.randn(rows, BATCH, HIDDEN) for _ in range(2 if isinstance(layer, torch.nn.LSTM) else 1)]
        states = [state.requires_grad_() for state in states]
        ys, last = layer(xs, tuple(states) if len(states) == 2 else states[0])
        outputs = {"ys": ys} | dict(zip(["last_h", "last_c"], last if len(states) == 2 else [last]))
        inputs = {"xs": xs} | dict(zip(["h", "c"], states))
        cts = {key: torch.randn_like(output) for key, output in outputs.items()}
        loss = sum((output * cts[key]).sum() for key, output in outputs.items())
        named = list(inputs.items()) + list(layer.named_parameters())
        tensors = inputs | outputs | {f"ct.{key}": ct for key, ct in cts.items()} | gradients(loss, named)
        found |= {f"{name}.{key}": tensor.detach().contiguous() for key, tensor in tensors.items()}
    return weights(net), found


def main():
    others = {"layers": layers, "gated_delta_net": mixer}
    for name in sys.argv[1:] or [*MODELS, *others]:
        of_model, found = others[name]() if name in others else model(name)
        save_file(of_model, HERE / f"{name}.safetensors")
        save_file(found, HERE / f"{name}.expected.safetensors")
        size = sum((HERE / f"{name}{end}.safetensors").stat().st_size for end in ["", ".expected"])
        zeros = [key for key, tensor in found.items() if tensor.abs().max() == 0]
        print(f"{name}: {len(of_model)} weights, {size // 1024} KiB", f"zero: {zeros}" if zeros else "")


if __name__ == "__main__":
    main()
