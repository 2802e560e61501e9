"""Write all-MiniLM-L6-v2, carried by a package as weights of PyTorch, as the ONNX file that Chroma otherwise fetches.

python export_minilm.py FOLDER_WITH_THE_MODEL TARGET_FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModel


class Tokens(torch.nn.Module):
    """The model with one output."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager")

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """The states of all tokens."""
        return self.model(input_ids, attention_mask, token_type_ids).last_hidden_state


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    names = ("input_ids", "attention_mask", "token_type_ids")
    # A sample without padding would be taken for all that there is: the mask would be traced away.
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    torch.onnx.export(
        Tokens(source).eval(),
        (torch.arange(1000, 1016).reshape(2, 8), mask, torch.zeros_like(mask)),
        str(target / "model.onnx"),
        input_names=list(names),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "rows", 1: "tokens"} for name in (*names, "last_hidden_state")},
        opset_version=17,
        dynamo=False,
    )
    for name in ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(source / name, target / name)


if __name__ == "__main__":
    main()
