"""Writes testdata/golden/kernels.txt: values and gradients of the kernels' operations as PyTorch computes them.

One line per array: its name, then its values in row-major order. Run from the root of the repository.
"""

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_num_threads(1)
lines = []


def put(name, tensor):
    values = " ".join(f"{v:.9g}" for v in tensor.detach().reshape(-1).to(torch.float64).tolist())
    lines.append(f"{name} {values}")


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


# Linear with bias and exact GELU, 5 rows, 7 inputs, 6 outputs.
x, w, b = leaf(5, 7), leaf(6, 7), leaf(6)
y = F.gelu(F.linear(x, w, b), approximate="none")
dy = torch.randn_like(y)
y.backward(dy)
for name, value in [("x", x), ("w", w), ("b", b), ("y", y), ("dy", dy), ("dx", x.grad), ("dw", w.grad), ("db", b.grad)]:
    put(f"linear.{name}", value)

# Layer norm, 4 rows of 11, eps 1e-6.
x, g, b = leaf(4, 11), leaf(11), leaf(11)
y = F.layer_norm(x, (11,), g, b, eps=1e-6)
dy = torch.randn_like(y)
y.backward(dy)
for name, value in [("x", x), ("g", g), ("b", b), ("y", y), ("dy", dy), ("dx", x.grad), ("dg", g.grad), ("db", b.grad)]:
    put(f"norm.{name}", value)

# Attention, 2 samples of 6 tokens (the second has 4), 2 heads of width 3.
qkv = leaf(2, 6, 18)
q, k, v = qkv.reshape(2, 6, 3, 2, 3).permute(2, 0, 3, 1, 4)
mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
mask[1, :, :, 4:] = False
y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).permute(0, 2, 1, 3).reshape(2, 6, 6)
keep = torch.ones(2, 6, 1)
keep[1, 4:] = 0
y = y * keep
dy = torch.randn_like(y)
y.backward(dy)
for name, value in [("qkv", qkv), ("y", y), ("dy", dy), ("dqkv", qkv.grad)]:
    put(f"attention.{name}", value)

# Softmax over rows of 9.
x = leaf(3, 9)
y = F.softmax(x, dim=-1)
dy = torch.randn_like(y)
y.backward(dy)
for name, value in [("x", x), ("y", y), ("dy", dy), ("dx", x.grad)]:
    put(f"softmax.{name}", value)

# Three steps of Adam, of Adam with an L2 penalty and of AdamW.
for name, optimiser, decay in [("adam", torch.optim.Adam, 0.0), ("l2", torch.optim.Adam, 0.1), ("adamw", torch.optim.AdamW, 0.1)]:
    p = leaf(10)
    put(f"{name}.before", p)
    step = optimiser([p], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
    for i in range(3):
        p.grad = torch.randn(10)
        put(f"{name}.gradient{i}", p.grad)
        step.step()
    put(f"{name}.after", p)

with open("testdata/golden/kernels.txt", "w", encoding="ascii") as file:
    file.write("\n".join(lines) + "\n")
