"""Arguments of torch's calls: their names here, and what stands for the others."""

from typing import Any

from treadle.base.errors import ArgumentError

# What torch calls an argument, and the names that the same may have here.
RENAMED: dict[str, tuple[str, ...]] = {
    "a": ("x",),
    "b": ("y",),
    "closure": ("loss",),
    "decoder_layer": ("layers",),
    "diagonal": ("k",),
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "embedding_dim": ("width",),
    "encoder_layer": ("layers",),
    "fn": ("function",),
    "func": ("f",),
    "hx": ("state",),
    "in_dims": ("in_axes",),
    "input": ("x", "logits", "prediction", "ids"),
    "input1": ("x1", "first"),
    "input2": ("x2", "second"),
    "interpolation": ("method",),
    "keepdim": ("keepdims",),
    "kernel_size": ("kernel",),
    "log_probs": ("prediction",),
    "max_value": ("max_val",),
    "min_value": ("min_val",),
    "negative_slope": ("slope",),
    "num_classes": ("n",),
    "num_embeddings": ("rows",),
    "num_workers": ("workers",),
    "out_dims": ("out_axes",),
    "p": ("ord",),
    "padding_idx": ("padding_index",),
    "param": ("value",),
    "requires_grad": ("value",),
    "state_dict": ("state",),
    "targets": ("target",),
    "tensor": ("value",),
    "unflattened_size": ("sizes",),
    "values": ("parameters",),
}

# One a line: an argument that nothing here has, and what is done in its place.
_ABSENT = """
antialias td.nn.functional.interpolate(x, ...) of x smoothed by a convolution
batch_sampler batch_size=..., or a list of batches as the data
collate_fn td.data.ListDataset(collate=...)
device nothing: td.options(engine=...) around the calls
generator seed=..., or td.options(seed=...) around the calls
memory_is_causal memory_mask=..., True where a place of the memory is seen
multiprocessing_context nothing: workers are started anew
out nothing: a result is a new tensor
persistent_workers persistent=True
prefetch_factor prefetch=...
reduce reduction="mean" or "sum"
recurse nothing: all that is below belongs to it
remove_duplicate nothing: each is listed once
sampler shuffle=..., or a list of what is drawn as the data
size_average reduction="mean" or "sum"
unbiased correction=1, or 0 for False
worker_init_fn nothing: draws are functions of the seed, for any number of workers
"""
ABSENT = dict(line.split(" ", 1) for line in _ABSENT.strip().splitlines())

# What asks torch for another way to the same values, which are the planner's here.
_IDLE = frozenset(
    ("cache_enabled", "create_graph", "enable_nested_tensor", "foreach", "fused",
     "inplace", "mask_check", "memory_format", "non_blocking", "pin_memory",
     "retain_graph")
)  # fmt: skip
# What they are where torch is not asked for anything.
_ON = {"recurse": True, "reduce": True, "remove_duplicate": True,
       "size_average": True, "unbiased": None}  # fmt: skip


def asks_nothing(word: str, value: Any) -> bool:
    """Return True for an argument of torch's without which a call here is the same.

    >>> asks_nothing("inplace", True), asks_nothing("out", None)
    (True, True)
    """
    unsaid = value is None or value is _ON.get(word, False)
    return word in _IDLE or (word in ABSENT and unsaid)


def only_none(set_to_none: bool) -> None:
    """Refuse gradients of zeros in the place of none, as torch's `set_to_none` asks."""
    if not set_to_none:
        raise ArgumentError(
            "gradients are None after zero_grad()",
            hint="td.zeros_like(p), where p.grad is None, is what False gives",
        ).located("zero_grad")
