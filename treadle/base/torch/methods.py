"""Names of torch.Tensor, and what stands for them here: one a line."""

import re

from treadle.base.torch.functions import FUNCTIONS

# Methods that are functions of the same name, of x.
_FUNCTIONS = """
addcdiv addcmul adjoint argwhere bernoulli bincount cholesky chunk det diag_embed diff
dist erfinv exp2 fmax fmin histc index_put inverse is_complex isneginf isposinf logdet
logit masked_scatter masked_select matrix_exp mode msort nanmean nansum narrow pinverse
qr quantile repeat_interleave renorm slogdet split_with_sizes svd tensor_split topk
unique xlogy arccos arccosh arcsin arcsinh arctan arctanh cov deg2rad diagflat fliplr
flipud heaviside hsplit isreal nanmedian rad2deg vsplit corrcoef diagonal_scatter eig
geqrf histogram index_reduce is_nonzero is_signed ldexp logaddexp2 narrow_copy
nonzero_static put select_scatter slice_scatter stft symeig unsafe_chunk unsafe_split
angle diag diagonal digamma frexp i0 lgamma nan_to_num nonzero positive signbit sinc
trace
"""
# Methods whose name has an underscore behind it where they change x: others here, and
# functions.
_CHANGING = """
abs exp ceil cos erf floor log log10 log1p log2 reciprocal rsqrt sign sin square tan
trunc tril triu relu round sigmoid sqrt tanh expm1 acos acosh asin asinh atan atanh
erfc swapaxes swapdims
"""
_CHANGING_OF_TWO = "atan2 eq ge gt le logical_xor lt ne"
_CHANGING_FUNCTIONS = """
logical_not sinh cosh bitwise_and bitwise_or bitwise_xor greater greater_equal hypot
less less_equal negative nextafter not_equal polygamma
"""
_CHANGING_OTHERS = """
addcdiv addcmul index_add index_copy lerp scatter scatter_add masked_scatter
nan_to_num index_reduce absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh
deg2rad digamma fix float_power frac lgamma rad2deg sgn sinc xlogy addmv
"""
_OTHERS = """
absolute x.abs()
addmm x + a @ b
addmv x + a @ v
addr x + td.outer(u, v)
allclose td.allclose(x, y)
aminmax x.min(axis), x.max(axis)
baddbmm x + a @ b
bitwise_and x & y
bitwise_not ~x
bitwise_or x | y
bitwise_xor x ^ y
broadcast_to td.broadcast_to(x, shape)
byte x.astype("uint8")
char x.astype("int8")
clamp_max td.minimum(x, bound)
clamp_min td.maximum(x, bound)
copysign td.copysign(x, y)
count_nonzero td.count_nonzero(x, axis)
cross td.linalg.cross(x, y)
cuda x, with td.options(engine=...) around what computes with it,
cummax td.cumulative_max(x, axis)
cummin -td.cumulative_max(-x, axis)
data x.detach(), and of a Variable v.assign(e) to change it,
dot td.dot(x, y)
equal bool((x == y).all())
fix x.trunc()
frac x - x.trunc()
gather td.take_along_axis(x, index, axis)
ger td.outer(x, y)
greater x > y
greater_equal x >= y
hardshrink td.where(td.abs(x) > 0.5, x, 0.0)
hypot td.hypot(x, y)
index_add td.scatter_add(x, index, values, axis)
index_copy td.scatter(x, index, values, axis)
index_fill td.scatter(x, index, value, axis)
inner td.inner(x, y)
is_contiguous True
is_cuda False
is_leaf isinstance(x, td.Variable)
isclose td.isclose(x, y)
kron td.kron(x, y)
kthvalue td.kth_value(x, k, axis)
lerp td.lerp(x, y, weight)
less x < y
less_equal x <= y
logaddexp td.logaddexp(x, y)
logcumsumexp td.cumulative_logsumexp(x, axis)
matrix_power td.linalg.matrix_power(x, n)
multinomial td.random.categorical(x.log())
median td.median(x, axis)
ndimension x.ndim
grad td.grad(y, [x]), and p.grad after backward() of a Parameter,
negative -x
nelement x.numel()
new_empty td.zeros(shape, x.dtype)
new_full td.full(shape, value, x.dtype)
new_ones td.ones(shape, x.dtype)
new_tensor td.asarray(values, x.dtype)
new_zeros td.zeros(shape, x.dtype)
norm td.norm(x, ord, axis)
not_equal x != y
outer td.outer(x, y)
pin_memory x
prelu td.prelu(x, slope)
register_hook td.custom_gradient, or td.scale_gradient and its like,
repeat td.tile(x, counts); NumPy's repeat is td.repeat(x, count, axis)
requires_grad v.requires_grad, of a Variable,
requires_grad_ v.requires_grad_(), of a Variable,
retain_grad td.grad(y, [x]), which gives that of any tensor,
scatter td.scatter(x, index, values, axis)
scatter_add td.scatter_add(x, index, values, axis)
scatter_reduce ~ td.scatter_add(x, index, values, axis)
select td.take(x, index, axis)
sgn x.sign()
short x.astype("int16")
sort td.sort(x, axis), and td.argsort(x, axis) for the places,
split td.split(x, parts, axis), by a number of parts or a list of sizes,
rot90 td.flip(x.swapaxes(0, 1), 0)
storage x.numpy()
stride x.numpy().strides
take td.take(x, indices)
take_along_dim td.take_along_axis(x, indices, axis)
to x.astype(dtype), as there is one device,
to_dense x
to_sparse td.CSR
true_divide x / y
unfold ~ td.unfold
unique_consecutive ~ td.unique_values(x)
vdot td.vecdot(x, y)
add_ v += e, or v.assign(v + e), of a Variable,
bernoulli_ v.assign(td.random.bernoulli(v.shape, p)), of a Variable,
clamp_ v.assign(v.clip(min, max)), of a Variable,
clip_ v.assign(v.clip(min, max)), of a Variable,
copy_ v.assign(e), of a Variable,
detach_ x.detach()
div_ v /= e, of a Variable,
fill_ v.assign(value), of a Variable,
cumprod_ v.assign(v.cumprod(axis)), of a Variable,
cumsum_ v.assign(v.cumsum(axis)), of a Variable,
masked_fill_ v.assign(v.masked_fill(mask, value)), of a Variable,
mul_ v *= e, of a Variable,
neg_ v.assign(-v), of a Variable,
normal_ v.assign(td.random.normal(v.shape)), of a Variable,
pow_ v.assign(v ** e), of a Variable,
squeeze_ x.squeeze(axis)
sub_ v -= e, of a Variable,
t_ x.t()
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
exponential_ ~ v.assign(-td.log(td.random.uniform(v.shape)))
fill_diagonal_ v.assign(td.where(td.eye(n) > 0, value, v)), of a Variable,
floor_divide_ v //= e, of a Variable,
fmod_ v.assign(v.fmod(e)), of a Variable,
geometric_ ~ v.assign(td.random.uniform(v.shape))
index_fill_ v[ids] = value, of a Variable,
index_put_ v[ids] = values, of a Variable,
log_normal_ v.assign(td.exp(td.random.normal(v.shape))), of a Variable,
logical_and_ v.assign(td.logical_and(v, e)), of a Variable,
logical_or_ v.assign(td.logical_or(v, e)), of a Variable,
divide_ v /= e, of a Variable,
multiply_ v *= e, of a Variable,
put_ v[ids] = values, of a Variable,
random_ v.assign(td.random.randint(low, high, v.shape)), of a Variable,
remainder_ v %= e, of a Variable,
resize_ x.reshape(shape)
set_ v.assign(e), of a Variable,
subtract_ v -= e, of a Variable,
true_divide_ v /= e, of a Variable,
arctan2 td.atan2(x, y)
as_strided ~ td.unfold
bitwise_left_shift x << n
bitwise_right_shift x >> n
data_ptr x.numpy().ctypes.data
float_power x ** y
get_device 0
grad_fn x.op, with x.inputs,
is_sparse isinstance(x, td.CSR)
itemsize x.dtype.itemsize
layout "strided"
lstsq td.linalg.lstsq(x, y)
mH td.conj(x).mT
new td.zeros(shape, x.dtype)
register_post_accumulate_grad_hook td.custom_gradient in what reads it
retains_grad td.grad(y, [x]), which gives that of any tensor,
sum_to_size td.sum(x, axis, keepdims=True)
values td.CSR, which has its data
H td.conj(x).mT
as_strided_ ~ td.unfold, as tensors have no strides
cdouble x.astype("complex128")
cfloat x.astype("complex64")
cholesky_inverse td.linalg.inv(x @ td.matrix_transpose(x))
cholesky_solve td.linalg.solve(x @ td.matrix_transpose(x), b)
coalesce x, of which each element is stored once,
dequantize x.astype("float32")
dsplit td.split(x, sizes, 2)
gcd np.gcd(x, y)
igamma scipy.special.gammainc(x, y)
igammac scipy.special.gammaincc(x, y)
is_cpu True, as x.device tells,
is_quantized False, as x.dtype tells,
is_same_size x.shape == y.shape
istft td.fft.irfft, and td.fold of the windows
lcm np.lcm(x, y)
lu ~ td.linalg.qr(x)
lu_solve td.linalg.solve(x, b)
mvlgamma ~ td.lgamma(x)
nanquantile np.nanquantile(x, q)
nextafter td.nextafter(x, y)
polygamma td.polygamma(n, x)
resize td.reshape(x, shape)
resize_as td.reshape(x, y.shape)
scatter_reduce_ v.assign(td.scatter_add(v, index, values, axis)), of a Variable,
share_memory_ x, which td.data.Loader(workers=n) shares,
solve td.linalg.solve(x, b)
to_sparse_coo td.CSR
to_sparse_csr td.CSR
triangular_solve td.linalg.triangular_solve(x, b)
untyped_storage x.numpy().data
addbmm x + td.sum(y @ z, 0)
"""


def _methods() -> dict[str, str]:
    """What stands for each method."""
    methods = dict(line.split(" ", 1) for line in _OTHERS.strip().splitlines())
    for name in _FUNCTIONS.split():
        here = FUNCTIONS.get(name, f"td.{name}")
        methods[name] = f"{here}(x)" if re.fullmatch(r"(td|np)[\w.]*", here) else here
    changed = {name: f"v.{name}()" for name in _CHANGING.split()}
    changed |= {name: f"v.{name}(...)" for name in _CHANGING_OF_TWO.split()}
    changed |= {name: f"td.{name}(v)" for name in _CHANGING_FUNCTIONS.split()}
    for name in _CHANGING_OTHERS.split():
        changed[name] = re.sub(r"\bx\b", "v", methods[name])
    for name, here in changed.items():
        methods[f"{name}_"] = f"v.assign({here}), of a Variable,"
    return methods


METHODS = _methods()
