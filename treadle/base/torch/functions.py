"""Names of torch, and what stands for them here: one a line."""

_OTHERS = """
absolute td.abs
addbmm b + td.sum(x @ y, 0)
addcdiv x + value * y / z
addcmul x + value * y * z
addmm b + x @ y
addmv b + x @ v
addr b + td.outer(u, v)
adjoint td.conj(x).mT
amax td.max
amin td.min
aminmax td.min(x, axis), td.max(x, axis)
arccos td.acos
arccosh td.acosh
arcsin td.asin
arcsinh td.asinh
arctan td.atan
arctan2 td.atan2
arctanh td.atanh
argwhere td.stack(td.nonzero(x), axis=-1)
as_tensor td.asarray
baddbmm b + x @ y
bernoulli td.random.bernoulli(p=x)
bincount td.scatter_add(td.zeros(n), x, 1.0)
bitwise_not td.bitwise_invert
block_diag ~ td.pad, and td.concat
bmm td.matmul
broadcast_tensors td.broadcast_arrays
bucketize td.searchsorted(boundaries, x)
cat td.concat
cdist td.sqrt(td.squared_distance(x[:, None], y[None], axis=-1))
chain_matmul td.linalg.matmul, one after the other
chunk td.split(x, chunks, axis)
clamp td.clip
clamp_max td.minimum
clamp_min td.maximum
clone td.value_of, as a tensor never changes
column_stack td.stack(xs, axis=1)
compile td.function
complex x + 1j * y
concatenate td.concat
constant_pad_nd td.pad
cummax td.cumulative_max
cummin -td.cumulative_max(-x)
cumprod td.cumulative_prod
cumsum td.cumulative_sum
deg2rad td.radians
detach td.stop_gradient
diag_embed x[..., None] * td.eye(n)
diagflat td.diag
dist td.norm(x - y)
div td.divide
dsplit td.split(x, parts, axis=2)
dstack td.concat(xs, axis=2)
enable_grad the rule outside of td.no_grad()
device td.options(engine=...)
eq td.equal
erfinv ~ td.callback of SciPy's erfinv
exp2 td.pow(2.0, x)
fix td.trunc
fliplr td.flip(x, 1)
flipud td.flip(x, 0)
float td.float32
float_power td.pow
double td.float64
half td.float16
long td.int64
int td.int32
short td.int16
fmax td.where(td.isnan(x), y, td.maximum(x, y))
fmin td.where(td.isnan(x), y, td.minimum(x, y))
frac x - td.trunc(x)
from_numpy td.asarray
frombuffer td.asarray(np.frombuffer(...))
ge td.greater_equal
ger td.outer
GradScaler td.optim.LossScale
get_default_dtype td.options(dtype=...)
get_num_threads td.options(threads=...)
get_rng_state td.random.seed_state
gt td.greater
gru td.nn.GRU
gumbel td.random.gumbel
heaviside td.where(x > 0, 1.0, td.where(x < 0, 0.0, y))
histc td.scatter_add(td.zeros(n), td.searchsorted(edges, x), 1.0)
hsplit td.split(x, parts, axis=1)
hstack td.concat(xs, axis=-1)
index_add td.scatter_add
index_copy td.scatter
index_fill td.scatter
index_put x.at[ids].set(values)
inference_mode td.no_grad
initial_seed td.options(seed=...)
inverse td.linalg.inv
is_tensor isinstance(x, td.Tensor)
is_floating_point x.is_floating_point()
is_grad_enabled True outside of td.no_grad()
isneginf x == -float("inf")
isposinf x == float("inf")
isreal td.imag(x) == 0
jit td.function, or td.save of a td.computation
kthvalue td.kth_value
le td.less_equal
logaddexp2 td.log2(td.pow(2.0, x) + td.pow(2.0, y))
logcumsumexp td.cumulative_logsumexp
logit td.log(x) - td.log1p(-x)
logspace td.pow(base, exponents)
lstm td.nn.LSTM
lt td.less
manual_seed td.set_options(seed=...)
masked_fill td.where(mask, value, x)
masked_scatter td.where(mask, values, x)
masked_select x[mask], of a mask that is known
mm td.matmul
mode ~ td.unique_counts
movedim td.moveaxis
msort td.sort(x, axis=0)
mul td.multiply
multinomial td.random.categorical(td.log(p))
mv td.matmul
nanmean td.mean(td.where(td.isnan(x), 0.0, x)), over the count
nansum td.sum(td.where(td.isnan(x), 0.0, x))
narrow td.pick_range(x, start, stop, axis)
ne td.not_equal
neg td.negative
normal td.random.normal
numel x.numel()
permute td.permute_dims
pinverse td.linalg.pinv
poisson ~ td.callback of a generator
polar r * td.exp(1j * angle)
rad2deg td.degrees
rand td.random.uniform(shape)
rand_like td.random.uniform(x.shape)
randint td.random.randint(low, high, shape)
randint_like td.random.randint(low, high, x.shape)
randn td.random.normal(shape)
randn_like td.random.normal(x.shape)
randperm td.random.permutation(n)
range td.arange
ravel td.flatten
renorm ~ td.clip_by_norm
repeat_interleave td.repeat(x, count, axis)
rot90 td.flip(td.swapaxes(x, 0, 1), 0)
row_stack td.concat(xs, axis=0)
rsub y - x
scalar_tensor td.asarray
seed td.set_options(seed=...)
set_default_dtype td.set_options(dtype=...)
set_grad_enabled td.no_grad
set_num_threads td.set_options(threads=...)
set_rng_state td.random.restore
sgn td.sign
sparse_coo_tensor td.CSR
sparse_csr_tensor td.CSR
split_with_sizes td.split(x, sizes, axis)
spmm td.csr_matmul
std_mean td.std(x, axis, correction=1), td.mean(x, axis)
sub td.subtract
swapdims td.swapaxes
take_along_dim td.take_along_axis
tensor td.asarray
tensor_split td.split(x, sizes, axis)
topk td.top_k(x, k, axis)
trapezoid td.sum((y[1:] + y[:-1]) / 2 * dx)
trapz td.sum((y[1:] + y[:-1]) / 2 * dx)
true_divide td.divide
unbind td.unstack
unique td.unique_values
unsqueeze td.expand_dims
use_deterministic_algorithms the rule, always,
utils td.data for its data
var_mean td.var(x, axis, correction=1), td.mean(x, axis)
vander td.pow(x[:, None], td.arange(n))
vdot td.vecdot
vsplit td.split(x, parts, axis=0)
vstack td.concat(xs, axis=0)
xlogy x * td.safelog(y)
amp td.autocast, and td.optim.LossScale for its scaler
cartesian_prod td.meshgrid
corrcoef ~ td.linalg.matmul of centered rows
cov ~ td.linalg.matmul of centered rows
cumulative_trapezoid td.cumulative_sum((y[1:] + y[:-1]) / 2 * dx)
func td.grad, td.vjp, td.jvp, td.vmap and td.jacobian
gradient ~ td.custom_gradient
is_complex x.dtype.kind == "c"
is_nonzero bool(x)
istft ~ td.fft.irfft of frames
nanmedian td.median of the elements that are numbers
promote_types td.result_type
scatter_reduce ~ td.scatter_add
segment_reduce ~ td.scatter_add
set_default_device td.set_options(engine=...)
set_float32_matmul_precision td.autocast
sparse td.CSR
stft td.fft.rfft of td.unfold's windows
unique_consecutive ~ td.unique_values
autograd td.grad, td.vjp and td.custom_gradient
backends td.options
cuda td.options(engine=...)
distributions td.random
hub td.load of a file
multiprocessing td.data.Loader(prefetch=...)
onnx td.to_onnx and td.from_onnx
special td.erf, td.digamma and their like
t x.t()
view_as_real td.stack([td.real(x), td.imag(x)], axis=-1)
view_as_complex x[..., 0] + 1j * x[..., 1]
LongTensor td.asarray(values, "int64")
FloatTensor td.asarray(values, "float32")
DoubleTensor td.asarray(values, "float64")
IntTensor td.asarray(values, "int32")
BoolTensor td.asarray(values, "bool")
Generator td.options(seed=...), of a scope,
Size a tuple
BFloat16Tensor td.asarray(values, "bfloat16")
ByteTensor td.asarray(values, "uint8")
CharTensor td.asarray(values, "int8")
HalfTensor td.asarray(values, "float16")
ShortTensor td.asarray(values, "int16")
as_strided ~ td.unfold, as tensors have no strides
bartlett_window np.bartlett(n + 1)[:-1]
binomial td.sum(td.random.bernoulli((n, *shape), p), 0)
blackman_window np.blackman(n + 1)[:-1]
cdouble td.complex128
cfloat td.complex64
channels_last ~ td.permute_dims, as tensors have no strides
cholesky_inverse td.linalg.inv(c @ c.mT)
cholesky_solve td.linalg.solve(c @ c.mT, b)
combinations x[np.array([*itertools.combinations(range(n), r)])]
contiguous_format ~ td.permute_dims, as tensors have no strides
diagonal_scatter x.at[ids, ids].set(values)
empty_strided td.empty
frobenius_norm td.linalg.matrix_norm
geqrf td.linalg.qr
get_default_device td.options(engine=...)
hamming_window np.hamming(n + 1)[:-1]
hann_window np.hanning(n + 1)[:-1]
histogram td.scatter_add(td.zeros(n), td.searchsorted(edges, x), 1.0)
igamma scipy.special.gammainc
igammac scipy.special.gammaincc
index_reduce x.at[ids].max(values)
is_signed x.dtype.kind != "u"
kaiser_window np.kaiser(n + 1, beta)[:-1]
ldexp x * td.pow(2.0, n)
lobpcg td.linalg.eigh
lu ~ td.linalg.qr
lu_solve td.linalg.solve
lu_unpack ~ td.linalg.qr
mvlgamma ~ td.lgamma
narrow_copy x[a:b]
nonzero_static td.nonzero
nuclear_norm td.linalg.matrix_norm(x, ord="nuc")
orgqr td.linalg.qr
ormqr td.linalg.qr
pca_lowrank td.linalg.svd
put x.at[ids].set(values)
select_scatter x.at[k].set(values)
slice_scatter x.at[a:b].set(values)
svd_lowrank td.linalg.svd
symeig td.linalg.eigh
unsafe_chunk td.split(x, chunks, axis)
unsafe_split td.split(x, sizes, axis)
"""
# Functions of the same name in other modules.
_ELSEWHERE = {
    "np": """
frexp gcd histogramdd i0 lcm nanquantile set_printoptions tril_indices triu_indices
unravel_index
""",
    "td.linalg": """
cholesky cross det logdet lstsq matrix_exp matrix_power matrix_rank qr slogdet solve
svd triangular_solve eig
""",
    "td.nn.functional": """
adaptive_avg_pool1d adaptive_max_pool1d channel_shuffle embedding_bag grid_sample
hardshrink hinge_embedding_loss pairwise_distance pdist pixel_shuffle pixel_unshuffle
threshold rrelu
""",
}
# Functions that change x where an underscore is behind their names.
_CHANGING = """
abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil
celu clamp clamp_max clamp_min clip cos cosh deg2rad erf erfc exp expm1 fix floor log
log10 log1p log2 nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid
sign sin sinc sinh sqrt square tan tanh trunc selu threshold rrelu lgamma
"""


def _functions() -> dict[str, str]:
    """What stands for each function."""
    functions = dict(line.split(" ", 1) for line in _OTHERS.strip().splitlines())
    for place, names in _ELSEWHERE.items():
        functions |= {name: f"{place}.{name}" for name in names.split()}
    for name in _CHANGING.split():
        here = functions.get(name, f"td.{name}")
        functions[f"{name}_"] = f"v.assign({here}(v)), of a Variable,"
    return functions


FUNCTIONS = _functions()
