"""Makes tests/onnx/files: models that PyTorch's two exporters have written, and what they compute.

    python -m tests.onnx.torch_models      # needs torch and onnxscript (made with torch 2.13)

``NAME_old.onnx`` is of ``torch.onnx.export(dynamo=False)``, ``NAME_dynamo.onnx`` of ``dynamo=True``
with its weights beside it.  What they say of the machine that exported them is taken out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

FOLDER = Path(__file__).parent / "files"


def main() -> None:
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(0)

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
            self.norm, self.pool = nn.BatchNorm2d(8), nn.MaxPool2d(3, 2, 1)
            self.a, self.b = nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1)
            self.head = nn.Linear(8, 10)

        def forward(self, x):
            x = self.pool(F.relu(self.norm(self.stem(x))))
            x = F.relu(x + self.b(F.relu(self.a(x))))
            return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    class Writer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.places = nn.Embedding(50, 32), nn.Parameter(torch.randn(16, 32))
            self.norm, self.qkv, self.head = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 50)

        def forward(self, x):
            x = self.table(x) + self.places[: x.shape[1]]
            b, t, d = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 4, 8).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.head(F.gelu(x + y.transpose(1, 2).reshape(b, t, d)))

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(8, 8, 2, bidirectional=True), nn.GRU(16, 8)

        def forward(self, x):
            return self.gru(self.lstm(x)[0])[0]

    class Hourglass(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(1, 4, 3, 2, 1), nn.ConvTranspose2d(4, 4, 2, 2)
            self.norm, self.out = nn.GroupNorm(2, 4), nn.Conv2d(5, 1, 3, 1, 1)

        def forward(self, x):
            small = F.avg_pool2d(x, 2)
            wide = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(torch.cat([self.up(F.silu(self.norm(self.down(x)))), x + wide], 1))

    class Looping(nn.Module):
        def forward(self, x, n: int):
            for i in range(n):
                if bool(x.sum() > 10.0):  # noqa: SIM108  as it is exported
                    x = x * 0.5
                else:
                    x = x + float(i)
            return x

    cases = {
        "residual": (Residual(), torch.randn(2, 3, 32, 32), {0: "n"}),
        "writer": (Writer(), torch.randint(0, 50, (2, 7)), {0: "n", 1: "t"}),
        "recurrent": (Recurrent(), torch.randn(5, 3, 8), {1: "n"}),
        "hourglass": (Hourglass(), torch.randn(2, 1, 16, 16), {0: "n"}),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, (net, x, sizes) in cases.items():
        net.eval()
        more = torch.cat([x, x, x], dim=next(iter(sizes)))
        arrays = {"x": x, "y": net(x), "more_x": more, "more_y": net(more)}
        np.savez_compressed(
            FOLDER / f"{name}.npz", **{key: t.detach().numpy() for key, t in arrays.items()}
        )
        torch.onnx.export(
            net, (x,), FOLDER / f"{name}_old.onnx", dynamo=False, input_names=["x"],
            dynamic_axes={"x": sizes}, opset_version=17,
        )  # fmt: skip
        shapes = {axis: torch.export.Dim(word, min=2, max=64) for axis, word in sizes.items()}
        torch.onnx.export(
            net, (x,), FOLDER / f"{name}_dynamo.onnx", dynamo=True, dynamic_shapes=(shapes,),
            external_data=True,
        )  # fmt: skip
    looping = torch.jit.script(Looping())
    found = {f"y{n}": looping(torch.ones(3), n).numpy() for n in (0, 1, 4, 9)}
    np.savez_compressed(FOLDER / "looping.npz", **found)
    torch.onnx.export(
        looping, (torch.ones(3), 4), FOLDER / "looping_old.onnx", dynamo=False,
        input_names=["x", "n"], opset_version=17,
    )  # fmt: skip
    for path in FOLDER.glob("*.onnx"):
        model = onnx.load(path, load_external_data=False)
        del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
        for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.functions):
            part.doc_string = ""
            del part.metadata_props[:]
        onnx.save(model, path)


if __name__ == "__main__":
    main()
