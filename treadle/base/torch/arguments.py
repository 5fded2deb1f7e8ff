"""Arguments of torch's calls: their names here, and what stands for the others."""

# What torch calls an argument, and the names that the same may have here.
RENAMED: dict[str, tuple[str, ...]] = {
    "closure": ("loss",),
    "decoder_layer": ("layers",),
    "diagonal": ("k",),
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "embedding_dim": ("width",),
    "encoder_layer": ("layers",),
    "fn": ("function",),
    "hx": ("state",),
    "input1": ("x1", "first"),
    "input2": ("x2", "second"),
    "keepdim": ("keepdims",),
    "log_probs": ("prediction",),
    "max_value": ("max_val",),
    "min_value": ("min_val",),
    "negative_slope": ("slope",),
    "num_classes": ("n",),
    "num_embeddings": ("rows",),
    "num_workers": ("workers",),
    "padding_idx": ("padding_index",),
    "param": ("value",),
    "requires_grad": ("value",),
    "src_mask": ("mask",),
    "state_dict": ("state",),
    "targets": ("target",),
    "tensor": ("value",),
    "unflattened_size": ("sizes",),
    "values": ("parameters",),
}

# One a line: an argument that nothing here has, and what is done in its place.
_ABSENT = """
antialias td.nn.functional.interpolate(x, ...) of x smoothed by a convolution
attn_mask mask=..., True where a key may be attended to, or a float that is added
batch_sampler batch_size=..., or a list of batches as the data
collate_fn td.data.ListDataset(collate=...)
create_graph nothing: a gradient is a graph itself
device nothing: td.options(engine=...) around the calls
generator seed=..., or td.options(seed=...) around the calls
key_padding_mask mask=~padding[:, None, None, :], as True means here: may be attended to
log_input td.nn.functional.poisson_nll_loss(..., log_input=...)
max_norm td.optim.Adam(...) and w.assign(td.clip_by_norm(w, norm)) after a step
memory_key_padding_mask memory_mask=~padding[:, None, None, :], True: may be attended to
multiprocessing_context nothing: workers are started anew
need_weights nothing: td.softmax(q @ k.mT / d**0.5) gives the weights of a head
non_blocking nothing: what is asked for is waited for
out nothing: a result is a new tensor
output_size output_padding=...
persistent_workers persistent=True
pin_memory nothing: there is one memory
prefetch_factor prefetch=...
recurse nothing: all that is below belongs to it
remove_duplicate nothing: each is listed once
retain_graph nothing: a graph may be derived any number of times
return_indices nothing: td.max_pool2d gives values alone
sampler shuffle=..., or a list of what is drawn as the data
scale_grad_by_freq td.custom_gradient around the lookup
src_key_padding_mask mask=~padding[:, None, None, :], True: may be attended to
tgt_key_padding_mask tgt_mask=~padding[:, None, None, :], True: may be attended to
unbiased correction=1, or 0 for False
worker_init_fn nothing: draws are functions of the seed, for any number of workers
"""
ABSENT = dict(line.split(" ", 1) for line in _ABSENT.strip().splitlines())
