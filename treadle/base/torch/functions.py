"""Names of torch, and what stands for them here: one a line."""

FUNCTIONS = """
absolute td.abs
adaptive_avg_pool1d td.nn.functional.adaptive_avg_pool1d
adaptive_max_pool1d td.nn.functional.adaptive_max_pool1d
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
broadcast_shapes np.broadcast_shapes
bucketize td.searchsorted(boundaries, x)
cat td.concat
cdist td.sqrt(td.squared_distance(x[:, None], y[None], axis=-1))
chain_matmul td.linalg.matmul, one after the other
channel_shuffle td.nn.functional.channel_shuffle
cholesky td.linalg.cholesky
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
cross td.linalg.cross
cummax td.cumulative_max
cummin -td.cumulative_max(-x)
cumprod td.cumulative_prod
cumsum td.cumulative_sum
deg2rad td.radians
det td.linalg.det
detach td.stop_gradient
diag_embed x[..., None] * td.eye(n)
diagflat td.diag
diff x[1:] - x[:-1]
dist td.norm(x - y)
div td.divide
dsplit td.split(x, parts, axis=2)
dstack td.concat(xs, axis=2)
embedding_bag td.nn.functional.embedding_bag
empty_like td.zeros(x.shape, x.dtype)
enable_grad the rule outside of td.no_grad()
device td.options(engine=...)
empty td.zeros
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
full_like td.full(x.shape, value, x.dtype)
ge td.greater_equal
ger td.outer
GradScaler td.optim.LossScale
get_default_dtype td.options(dtype=...)
get_num_threads td.options(threads=...)
get_rng_state td.random.seed_state
grid_sample td.nn.functional.grid_sample
gt td.greater
gru td.nn.GRU
gumbel td.random.gumbel
hardshrink td.nn.functional.hardshrink
heaviside td.where(x > 0, 1.0, td.where(x < 0, 0.0, y))
hinge_embedding_loss td.nn.functional.hinge_embedding_loss
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
isin td.any(x[..., None] == values, axis=-1)
isneginf x == -float("inf")
isposinf x == float("inf")
isreal td.imag(x) == 0
jit td.function, or td.save of a td.computation
kthvalue td.kth_value
le td.less_equal
linspace start + td.arange(n) * step
logaddexp2 td.log2(td.pow(2.0, x) + td.pow(2.0, y))
logcumsumexp td.cumulative_logsumexp
logdet td.linalg.logdet
logit td.log(x) - td.log1p(-x)
logspace td.pow(base, exponents)
lstm td.nn.LSTM
lstsq td.linalg.lstsq
lt td.less
manual_seed td.set_options(seed=...)
masked_fill td.where(mask, value, x)
masked_scatter td.where(mask, values, x)
masked_select x[mask], of a mask that is known
matrix_exp td.linalg.matrix_exp
matrix_power td.linalg.matrix_power
matrix_rank td.linalg.matrix_rank
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
ones_like td.ones(x.shape, x.dtype)
pairwise_distance td.nn.functional.pairwise_distance
pdist td.nn.functional.pdist
permute td.permute_dims
pinverse td.linalg.pinv
pixel_shuffle td.nn.functional.pixel_shuffle
pixel_unshuffle td.nn.functional.pixel_unshuffle
poisson ~ td.callback of a generator
polar r * td.exp(1j * angle)
qr td.linalg.qr
quantile ~ td.kth_value
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
slogdet td.linalg.slogdet
sparse_coo_tensor td.CSR
sparse_csr_tensor td.CSR
solve td.linalg.solve
split_with_sizes td.split(x, sizes, axis)
spmm td.csr_matmul
std_mean td.std(x, axis, correction=1), td.mean(x, axis)
sub td.subtract
svd td.linalg.svd
swapdims td.swapaxes
take_along_dim td.take_along_axis
tensor td.asarray
tensor_split td.split(x, sizes, axis)
threshold td.nn.functional.threshold
topk td.top_k(x, k, axis)
trapezoid td.sum((y[1:] + y[:-1]) / 2 * dx)
trapz td.sum((y[1:] + y[:-1]) / 2 * dx)
triangular_solve td.linalg.triangular_solve
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
zeros_like td.zeros(x.shape, x.dtype)
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
rrelu td.nn.functional.rrelu
scatter_reduce ~ td.scatter_add
segment_reduce ~ td.scatter_add
set_default_device td.set_options(engine=...)
set_float32_matmul_precision td.autocast
set_printoptions np.set_printoptions
sparse td.CSR
stft td.fft.rfft of td.unfold's windows
tril_indices np.tril_indices
triu_indices np.triu_indices
unique_consecutive ~ td.unique_values
unravel_index np.unravel_index
autograd td.grad, td.vjp and td.custom_gradient
backends td.options
cuda td.options(engine=...)
distributions td.random
fft ~ td.callback of np.fft's functions
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
frexp np.frexp
frobenius_norm td.linalg.matrix_norm
gcd np.gcd
geqrf td.linalg.qr
get_default_device td.options(engine=...)
hamming_window np.hamming(n + 1)[:-1]
hann_window np.hanning(n + 1)[:-1]
histogram td.scatter_add(td.zeros(n), td.searchsorted(edges, x), 1.0)
histogramdd np.histogramdd
i0 np.i0
igamma scipy.special.gammainc
igammac scipy.special.gammaincc
index_reduce x.at[ids].max(values)
is_signed x.dtype.kind != "u"
kaiser_window np.kaiser(n + 1, beta)[:-1]
lcm np.lcm
ldexp x * td.pow(2.0, n)
lobpcg td.linalg.eigh
lu ~ td.linalg.qr
lu_solve td.linalg.solve
lu_unpack ~ td.linalg.qr
mvlgamma ~ td.lgamma
nanquantile np.nanquantile
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
eig td.linalg.eig
unsafe_chunk td.split(x, chunks, axis)
unsafe_split td.split(x, sizes, axis)
abs_ v.assign(td.abs(v)), of a Variable,
acos_ v.assign(td.acos(v)), of a Variable,
acosh_ v.assign(td.acosh(v)), of a Variable,
arccos_ v.assign(td.acos(v)), of a Variable,
arccosh_ v.assign(td.acosh(v)), of a Variable,
arcsin_ v.assign(td.asin(v)), of a Variable,
arcsinh_ v.assign(td.asinh(v)), of a Variable,
arctan_ v.assign(td.atan(v)), of a Variable,
arctanh_ v.assign(td.atanh(v)), of a Variable,
asin_ v.assign(td.asin(v)), of a Variable,
asinh_ v.assign(td.asinh(v)), of a Variable,
atan_ v.assign(td.atan(v)), of a Variable,
atanh_ v.assign(td.atanh(v)), of a Variable,
ceil_ v.assign(td.ceil(v)), of a Variable,
celu_ v.assign(td.celu(v)), of a Variable,
clamp_ v.assign(td.clip(v)), of a Variable,
clamp_max_ v.assign(td.minimum(v)), of a Variable,
clamp_min_ v.assign(td.maximum(v)), of a Variable,
clip_ v.assign(td.clip(v)), of a Variable,
cos_ v.assign(td.cos(v)), of a Variable,
cosh_ v.assign(td.cosh(v)), of a Variable,
deg2rad_ v.assign(td.radians(v)), of a Variable,
erf_ v.assign(td.erf(v)), of a Variable,
erfc_ v.assign(td.erfc(v)), of a Variable,
exp_ v.assign(td.exp(v)), of a Variable,
expm1_ v.assign(td.expm1(v)), of a Variable,
fix_ v.assign(td.trunc(v)), of a Variable,
floor_ v.assign(td.floor(v)), of a Variable,
log_ v.assign(td.log(v)), of a Variable,
log10_ v.assign(td.log10(v)), of a Variable,
log1p_ v.assign(td.log1p(v)), of a Variable,
log2_ v.assign(td.log2(v)), of a Variable,
nan_to_num_ v.assign(td.nan_to_num(v)), of a Variable,
neg_ v.assign(td.negative(v)), of a Variable,
negative_ v.assign(td.negative(v)), of a Variable,
rad2deg_ v.assign(td.degrees(v)), of a Variable,
reciprocal_ v.assign(td.reciprocal(v)), of a Variable,
relu_ v.assign(td.relu(v)), of a Variable,
round_ v.assign(td.round(v)), of a Variable,
rsqrt_ v.assign(td.rsqrt(v)), of a Variable,
sigmoid_ v.assign(td.sigmoid(v)), of a Variable,
sign_ v.assign(td.sign(v)), of a Variable,
sin_ v.assign(td.sin(v)), of a Variable,
sinc_ v.assign(td.sinc(v)), of a Variable,
sinh_ v.assign(td.sinh(v)), of a Variable,
sqrt_ v.assign(td.sqrt(v)), of a Variable,
square_ v.assign(td.square(v)), of a Variable,
tan_ v.assign(td.tan(v)), of a Variable,
tanh_ v.assign(td.tanh(v)), of a Variable,
trunc_ v.assign(td.trunc(v)), of a Variable,
selu_ v.assign(td.selu(v)), of a Variable,
threshold_ v.assign(td.nn.functional.threshold(v)), of a Variable,
rrelu_ v.assign(td.nn.functional.rrelu(v)), of a Variable,
lgamma_ v.assign(td.lgamma(v)), of a Variable,
"""
