"""Names of torch.Tensor, and what stands for them here: one a line."""

METHODS = """
absolute x.abs()
addcdiv x + value * y / z
addcmul x + value * y * z
addmm x + a @ b
addmv x + a @ v
addr x + td.outer(u, v)
adjoint td.conj(x).mT
allclose td.allclose(x, y)
aminmax x.min(axis), x.max(axis)
angle td.angle(x)
argwhere td.stack(td.nonzero(x), axis=-1)
baddbmm x + a @ b
bernoulli td.random.bernoulli(p=x)
bincount td.scatter_add(td.zeros(n), x, 1.0)
bitwise_and x & y
bitwise_not ~x
bitwise_or x | y
bitwise_xor x ^ y
broadcast_to td.broadcast_to(x, shape)
byte x.astype("uint8")
char x.astype("int8")
cholesky td.linalg.cholesky(x)
chunk td.split(x, chunks, axis)
clamp_max td.minimum(x, bound)
clamp_min td.maximum(x, bound)
copysign td.copysign(x, y)
count_nonzero td.count_nonzero(x, axis)
cross td.linalg.cross(x, y)
cuda x, with td.options(engine=...) around what computes with it,
cummax td.cumulative_max(x, axis)
cummin -td.cumulative_max(-x, axis)
data x.detach(), and of a Variable v.assign(e) to change it,
det td.linalg.det(x)
diag td.diag(x)
diagonal td.diagonal(x)
diag_embed x[..., None] * td.eye(n)
diff x[1:] - x[:-1]
digamma td.digamma(x)
dist td.norm(x - y)
dot td.dot(x, y)
equal bool((x == y).all())
erfinv ~ td.callback of SciPy's erfinv
exp2 td.pow(2.0, x)
fix x.trunc()
fmax td.where(td.isnan(x), y, td.maximum(x, y))
fmin td.where(td.isnan(x), y, td.minimum(x, y))
frac x - x.trunc()
gather td.take_along_axis(x, index, axis)
ger td.outer(x, y)
greater x > y
greater_equal x >= y
hardshrink td.where(td.abs(x) > 0.5, x, 0.0)
histc td.scatter_add(td.zeros(n), td.searchsorted(edges, x), 1.0)
hypot td.hypot(x, y)
index_add td.scatter_add(x, index, values, axis)
index_copy td.scatter(x, index, values, axis)
index_fill td.scatter(x, index, value, axis)
index_put x.at[ids].set(values)
inner td.inner(x, y)
inverse td.linalg.inv(x)
is_contiguous True
is_cuda False
is_complex x.dtype.kind == "c"
is_leaf isinstance(x, td.Variable)
isclose td.isclose(x, y)
isneginf x == -float("inf")
isposinf x == float("inf")
kron td.kron(x, y)
kthvalue td.kth_value(x, k, axis)
lerp td.lerp(x, y, weight)
less x < y
less_equal x <= y
lgamma td.lgamma(x)
logaddexp td.logaddexp(x, y)
logcumsumexp td.cumulative_logsumexp(x, axis)
logdet td.linalg.logdet(x)
logit td.log(x) - td.log1p(-x)
masked_scatter td.where(mask, values, x)
masked_select x[mask], of a mask that is known
matrix_exp td.linalg.matrix_exp(x)
matrix_power td.linalg.matrix_power(x, n)
mode ~ td.unique_counts
msort td.sort(x, axis=0)
multinomial td.random.categorical(x.log())
nan_to_num td.nan_to_num(x)
median td.median(x, axis)
nanmean td.mean(td.where(td.isnan(x), 0.0, x)), over the count
nansum td.sum(td.where(td.isnan(x), 0.0, x))
narrow td.pick_range(x, start, stop, axis)
ndimension x.ndim
grad td.grad(y, [x]), and p.grad after backward() of a Parameter,
negative -x
nelement x.numel()
new_empty td.zeros(shape, x.dtype)
new_full td.full(shape, value, x.dtype)
new_ones td.ones(shape, x.dtype)
new_tensor td.asarray(values, x.dtype)
new_zeros td.zeros(shape, x.dtype)
nonzero td.nonzero(x)
norm td.norm(x, ord, axis)
not_equal x != y
outer td.outer(x, y)
pin_memory x
pinverse td.linalg.pinv(x)
positive td.positive(x)
prelu td.prelu(x, slope)
qr td.linalg.qr(x)
quantile ~ td.kth_value(x, k, axis)
register_hook td.custom_gradient, or td.scale_gradient and its like,
repeat td.tile(x, counts); NumPy's repeat is td.repeat(x, count, axis)
repeat_interleave td.repeat(x, count, axis)
requires_grad v.requires_grad, of a Variable,
requires_grad_ v.requires_grad_(), of a Variable,
renorm ~ td.clip_by_norm
retain_grad td.grad(y, [x]), which gives that of any tensor,
scatter td.scatter(x, index, values, axis)
scatter_add td.scatter_add(x, index, values, axis)
scatter_reduce ~ td.scatter_add(x, index, values, axis)
select td.take(x, index, axis)
sgn x.sign()
short x.astype("int16")
signbit td.signbit(x)
sinc td.sinc(x)
slogdet td.linalg.slogdet(x)
sort td.sort(x, axis), and td.argsort(x, axis) for the places,
split td.split(x, parts, axis), by a number of parts or a list of sizes,
split_with_sizes td.split(x, sizes, axis)
rot90 td.flip(x.swapaxes(0, 1), 0)
storage x.numpy()
stride x.numpy().strides
svd td.linalg.svd(x)
take td.take(x, indices)
take_along_dim td.take_along_axis(x, indices, axis)
tensor_split td.split(x, sizes, axis)
to x.astype(dtype), as there is one device,
to_dense x
to_sparse td.CSR
topk td.top_k(x, k, axis)
trace td.trace(x)
true_divide x / y
unfold ~ td.unfold
unique_consecutive ~ td.unique_values(x)
unique td.unique_values(x)
vdot td.vecdot(x, y)
xlogy x * td.safelog(y)
abs_ v.assign(v.abs()), of a Variable,
add_ v += e, or v.assign(v + e), of a Variable,
addcdiv_ v.assign(v + value * y / z), of a Variable,
addcmul_ v.assign(v + value * y * z), of a Variable,
bernoulli_ v.assign(td.random.bernoulli(v.shape, p)), of a Variable,
clamp_ v.assign(v.clip(min, max)), of a Variable,
clip_ v.assign(v.clip(min, max)), of a Variable,
copy_ v.assign(e), of a Variable,
detach_ x.detach()
div_ v /= e, of a Variable,
exp_ v.assign(v.exp()), of a Variable,
fill_ v.assign(value), of a Variable,
index_add_ v.assign(td.scatter_add(v, index, values, axis)), of a Variable,
index_copy_ v.assign(td.scatter(v, index, values, axis)), of a Variable,
lerp_ v.assign(td.lerp(v, y, weight)), of a Variable,
ceil_ v.assign(v.ceil()), of a Variable,
cos_ v.assign(v.cos()), of a Variable,
cumprod_ v.assign(v.cumprod(axis)), of a Variable,
cumsum_ v.assign(v.cumsum(axis)), of a Variable,
erf_ v.assign(v.erf()), of a Variable,
floor_ v.assign(v.floor()), of a Variable,
log_ v.assign(v.log()), of a Variable,
log10_ v.assign(v.log10()), of a Variable,
log1p_ v.assign(v.log1p()), of a Variable,
log2_ v.assign(v.log2()), of a Variable,
reciprocal_ v.assign(v.reciprocal()), of a Variable,
rsqrt_ v.assign(v.rsqrt()), of a Variable,
sign_ v.assign(v.sign()), of a Variable,
sin_ v.assign(v.sin()), of a Variable,
square_ v.assign(v.square()), of a Variable,
tan_ v.assign(v.tan()), of a Variable,
trunc_ v.assign(v.trunc()), of a Variable,
tril_ v.assign(v.tril()), of a Variable,
triu_ v.assign(v.triu()), of a Variable,
masked_fill_ v.assign(v.masked_fill(mask, value)), of a Variable,
mul_ v *= e, of a Variable,
neg_ v.assign(-v), of a Variable,
normal_ v.assign(td.random.normal(v.shape)), of a Variable,
pow_ v.assign(v ** e), of a Variable,
relu_ v.assign(v.relu()), of a Variable,
round_ v.assign(v.round()), of a Variable,
scatter_ v.assign(td.scatter(v, index, values, axis)), of a Variable,
scatter_add_ v.assign(td.scatter_add(v, index, values, axis)), of a Variable,
sigmoid_ v.assign(v.sigmoid()), of a Variable,
sqrt_ v.assign(v.sqrt()), of a Variable,
squeeze_ x.squeeze(axis)
sub_ v -= e, of a Variable,
t_ x.t()
tanh_ v.assign(v.tanh()), of a Variable,
transpose_ x.swapaxes(first, second)
uniform_ v.assign(td.random.uniform(v.shape)), of a Variable,
unsqueeze_ x.unsqueeze(axis)
zero_ v.assign(0.0), of a Variable,
addmm_ v.assign(v + x @ y), of a Variable,
baddbmm_ v.assign(v + x @ y), of a Variable,
cauchy_ ~ v.assign(td.random.uniform(v.shape))
clamp_max_ v.assign(td.minimum(v, e)), of a Variable,
clamp_min_ v.assign(td.maximum(v, e)), of a Variable,
copysign_ v.assign(td.copysign(v, e)), of a Variable,
expm1_ v.assign(v.expm1()), of a Variable,
exponential_ ~ v.assign(-td.log(td.random.uniform(v.shape)))
fill_diagonal_ v.assign(td.where(td.eye(n) > 0, value, v)), of a Variable,
floor_divide_ v //= e, of a Variable,
fmod_ v.assign(v.fmod(e)), of a Variable,
geometric_ ~ v.assign(td.random.uniform(v.shape))
index_fill_ v[ids] = value, of a Variable,
index_put_ v[ids] = values, of a Variable,
log_normal_ v.assign(td.exp(td.random.normal(v.shape))), of a Variable,
logical_and_ v.assign(td.logical_and(v, e)), of a Variable,
logical_not_ v.assign(td.logical_not(v)), of a Variable,
logical_or_ v.assign(td.logical_or(v, e)), of a Variable,
masked_scatter_ v.assign(td.where(mask, values, v)), of a Variable,
divide_ v /= e, of a Variable,
multiply_ v *= e, of a Variable,
nan_to_num_ v.assign(td.nan_to_num(v)), of a Variable,
put_ v[ids] = values, of a Variable,
random_ v.assign(td.random.randint(low, high, v.shape)), of a Variable,
remainder_ v %= e, of a Variable,
resize_ x.reshape(shape)
set_ v.assign(e), of a Variable,
sinh_ v.assign(td.sinh(v)), of a Variable,
cosh_ v.assign(td.cosh(v)), of a Variable,
subtract_ v -= e, of a Variable,
true_divide_ v /= e, of a Variable,
arccos td.acos(x)
arccosh td.acosh(x)
arcsin td.asin(x)
arcsinh td.asinh(x)
arctan td.atan(x)
arctan2 td.atan2(x, y)
arctanh td.atanh(x)
as_strided ~ td.unfold
bitwise_left_shift x << n
bitwise_right_shift x >> n
cov ~ td.linalg.matmul of centered rows
data_ptr x.numpy().ctypes.data
deg2rad td.radians(x)
diagflat td.diag(x)
fliplr td.flip(x, 1)
flipud td.flip(x, 0)
float_power x ** y
get_device 0
grad_fn x.op, with x.inputs,
heaviside td.where(x > 0, 1.0, td.where(x < 0, 0.0, y))
hsplit td.split(x, parts, axis=1)
is_sparse isinstance(x, td.CSR)
isreal td.imag(x) == 0
itemsize x.dtype.itemsize
layout "strided"
lstsq td.linalg.lstsq(x, y)
mH td.conj(x).mT
nanmedian td.median of the elements that are numbers
new td.zeros(shape, x.dtype)
rad2deg td.degrees(x)
register_post_accumulate_grad_hook td.custom_gradient in what reads it
retains_grad td.grad(y, [x]), which gives that of any tensor,
sum_to_size td.sum(x, axis, keepdims=True)
values td.CSR, which has its data
vsplit td.split(x, parts, axis=0)
H td.conj(x).mT
as_strided_ ~ td.unfold, as tensors have no strides
cdouble x.astype("complex128")
cfloat x.astype("complex64")
cholesky_inverse td.linalg.inv(x @ td.matrix_transpose(x))
cholesky_solve td.linalg.solve(x @ td.matrix_transpose(x), b)
coalesce x, of which each element is stored once,
corrcoef ~ td.linalg.matmul of centered rows
dequantize x.astype("float32")
diagonal_scatter x.at[ids, ids].set(values)
dsplit td.split(x, sizes, 2)
eig td.linalg.eig(x)
frexp np.frexp(x)
gcd np.gcd(x, y)
geqrf td.linalg.qr(x)
histogram td.scatter_add(td.zeros(n), td.searchsorted(edges, x), 1.0)
i0 np.i0(x)
igamma scipy.special.gammainc(x, y)
igammac scipy.special.gammaincc(x, y)
index_reduce x.at[ids].max(values)
index_reduce_ v.assign(v.at[ids].max(values)), of a Variable,
is_cpu True, as x.device tells,
is_nonzero bool(x)
is_quantized False, as x.dtype tells,
is_same_size x.shape == y.shape
is_signed x.dtype.kind != "u"
istft td.fft.irfft, and td.fold of the windows
lcm np.lcm(x, y)
ldexp x * td.pow(2.0, n)
logaddexp2 td.log2(td.pow(2.0, x) + td.pow(2.0, y))
lu ~ td.linalg.qr(x)
lu_solve td.linalg.solve(x, b)
mvlgamma ~ td.lgamma(x)
nanquantile np.nanquantile(x, q)
narrow_copy x[a:b]
nextafter td.nextafter(x, y)
nonzero_static td.nonzero(x)
polygamma td.polygamma(n, x)
put x.at[ids].set(values)
resize td.reshape(x, shape)
resize_as td.reshape(x, y.shape)
scatter_reduce_ v.assign(td.scatter_add(v, index, values, axis)), of a Variable,
select_scatter x.at[k].set(values)
share_memory_ x, which td.data.Loader(workers=n) shares,
slice_scatter x.at[a:b].set(values)
solve td.linalg.solve(x, b)
stft td.fft.rfft of td.unfold's windows
symeig td.linalg.eigh(x)
to_sparse_coo td.CSR
to_sparse_csr td.CSR
triangular_solve td.linalg.triangular_solve(x, b)
unsafe_chunk td.split(x, chunks, axis)
unsafe_split td.split(x, sizes, axis)
untyped_storage x.numpy().data
addbmm x + td.sum(y @ z, 0)
absolute_ v.assign(v.abs()), of a Variable,
acos_ v.assign(v.acos()), of a Variable,
acosh_ v.assign(v.acosh()), of a Variable,
arccos_ v.assign(td.acos(v)), of a Variable,
arccosh_ v.assign(td.acosh(v)), of a Variable,
arcsin_ v.assign(td.asin(v)), of a Variable,
arcsinh_ v.assign(td.asinh(v)), of a Variable,
arctan_ v.assign(td.atan(v)), of a Variable,
arctan2_ v.assign(td.atan2(v, y)), of a Variable,
arctanh_ v.assign(td.atanh(v)), of a Variable,
asin_ v.assign(v.asin()), of a Variable,
asinh_ v.assign(v.asinh()), of a Variable,
atan_ v.assign(v.atan()), of a Variable,
atan2_ v.assign(v.atan2(...)), of a Variable,
atanh_ v.assign(v.atanh()), of a Variable,
bitwise_and_ v.assign(td.bitwise_and(v)), of a Variable,
bitwise_or_ v.assign(td.bitwise_or(v)), of a Variable,
bitwise_xor_ v.assign(td.bitwise_xor(v)), of a Variable,
deg2rad_ v.assign(td.radians(v)), of a Variable,
digamma_ v.assign(td.digamma(v)), of a Variable,
eq_ v.assign(v.eq(...)), of a Variable,
erfc_ v.assign(v.erfc()), of a Variable,
fix_ v.assign(v.trunc()), of a Variable,
float_power_ v.assign(v ** y), of a Variable,
frac_ v.assign(v - v.trunc()), of a Variable,
ge_ v.assign(v.ge(...)), of a Variable,
greater_ v.assign(td.greater(v)), of a Variable,
greater_equal_ v.assign(td.greater_equal(v)), of a Variable,
gt_ v.assign(v.gt(...)), of a Variable,
hypot_ v.assign(td.hypot(v)), of a Variable,
le_ v.assign(v.le(...)), of a Variable,
less_ v.assign(td.less(v)), of a Variable,
less_equal_ v.assign(td.less_equal(v)), of a Variable,
lgamma_ v.assign(td.lgamma(v)), of a Variable,
logical_xor_ v.assign(v.logical_xor(...)), of a Variable,
lt_ v.assign(v.lt(...)), of a Variable,
ne_ v.assign(v.ne(...)), of a Variable,
negative_ v.assign(td.negative(v)), of a Variable,
nextafter_ v.assign(td.nextafter(v)), of a Variable,
not_equal_ v.assign(td.not_equal(v)), of a Variable,
rad2deg_ v.assign(td.degrees(v)), of a Variable,
sgn_ v.assign(v.sign()), of a Variable,
sinc_ v.assign(td.sinc(v)), of a Variable,
swapaxes_ v.assign(v.swapaxes()), of a Variable,
swapdims_ v.assign(v.swapdims()), of a Variable,
xlogy_ v.assign(v * td.safelog(y)), of a Variable,
polygamma_ v.assign(td.polygamma(v)), of a Variable,
addmv_ v.assign(v + a @ v), of a Variable,
"""
