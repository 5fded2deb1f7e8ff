"""Names of torch.nn, torch.optim and torch.utils.data, and what stands for them."""

LAYERS = """
AdaptiveLogSoftmaxWithLoss ~ td.nn.ClassFactoredSoftmax
Buffer td.Variable, assigned to an attribute,
CrossMapLRN2d td.local_response_norm
DataParallel td.options(threads=...)
FeatureAlphaDropout ~ td.nn.AlphaDropout
LinearCrossEntropyLoss td.nn.CrossEntropyLoss after td.nn.Linear
NLLLoss2d td.nn.NLLLoss
RNNBase td.nn.Recurrent
RNNCellBase td.nn.Cell
UninitializedParameter td.deferred
Parameter td.param, or td.Parameter
ParameterDict a dict of td.Parameter, as an attribute,
SyncBatchNorm td.distributed.SyncBatchNorm
Transformer ~ td.nn.Translator, or td.nn.TransformerEncoder and Decoder
parameter td.Parameter
"""

FUNCTIONAL = """
conv_tbc td.nn.functional.conv1d of other axes
feature_alpha_dropout ~ td.nn.functional.alpha_dropout
linear_cross_entropy td.cross_entropy(td.nn.functional.linear(x, weight), target)
multi_head_attention_forward td.nn.MultiHeadAttention
celu_ td.nn.functional.celu
hardtanh_ td.nn.functional.hardtanh
relu_ td.nn.functional.relu
selu_ td.nn.functional.selu
elu_ td.nn.functional.elu
leaky_relu_ td.nn.functional.leaky_relu
"""

INIT = """
calculate_gain td.nn.init.gain
constant_ w.assign(value)
dirac_ w.assign(td.nn.init.identity(w.shape))
eye_ w.assign(td.nn.init.eye(w.shape))
kaiming_normal_ w.assign(td.nn.init.kaiming_normal(w.shape))
kaiming_uniform_ w.assign(td.nn.init.kaiming_uniform(w.shape))
normal_ w.assign(td.nn.init.normal(w.shape, mean=..., std=...))
ones_ w.assign(1.0)
orthogonal_ w.assign(td.nn.init.orthogonal(w.shape))
sparse_ ~ td.nn.init.bernoulli
trunc_normal_ w.assign(td.nn.init.truncated_normal(w.shape, std=...))
uniform_ w.assign(td.nn.init.uniform(w.shape, low=..., high=...))
xavier_normal_ w.assign(td.nn.init.xavier_normal(w.shape))
xavier_uniform_ w.assign(td.nn.init.xavier_uniform(w.shape))
zeros_ w.assign(0.0)
"""

UTILS = """
clip_grad_norm td.nn.utils.clip_grad_norm_
clip_grads_with_norm_ td.nn.utils.clip_grad_norm_
fuse_conv_bn_eval ~ td.function, which computes both at once
parametrizations td.nn.WeightNorm
parametrize ~ td.nn.WeightNorm
prune ~ td.nn.sparsify
remove_spectral_norm ~ td.nn.WeightNorm
remove_weight_norm the layer of td.nn.WeightNorm
rnn rnn(xs) of a list of sequences, or rnn(x, lengths=...)
skip_init a layer of weight_init=...
spectral_norm ~ td.nn.WeightNorm
stateless td.function
weight_norm td.nn.WeightNorm
"""

MODULE = """
bfloat16 net.astype("bfloat16")
compile td.function(net)
cpu net, as there is one device,
cuda net, with td.options(engine=...) around its calls,
double net.astype("float64")
float net.astype("float32")
get_buffer dict(net.named_buffers())[name]
get_parameter dict(net.named_parameters())[name]
get_submodule dict(net.named_modules())[name]
half net.astype("float16")
register_backward_hook td.custom_gradient in forward
register_forward_hook a Module around this one
register_forward_pre_hook a Module around this one
register_full_backward_hook td.custom_gradient in forward
register_full_backward_pre_hook td.custom_gradient in forward
register_load_state_dict_post_hook net.load_state_dict(state, rename=...)
register_load_state_dict_pre_hook net.load_state_dict(state, rename=...)
register_state_dict_post_hook net.state_dict(), which is a dict to change,
register_state_dict_pre_hook net.state_dict(), which is a dict to change,
get_extra_state td.Variable, assigned to an attribute,
set_extra_state td.Variable, assigned to an attribute,
set_submodule setattr(net, name, part)
to_empty net
xpu net, with td.options(engine=...) around its calls,
register_module net.add_module(name, part)
share_memory net
to net.astype(dtype), as there is one device,
type net.astype(dtype)
reset_parameters a new layer, or td.nn.init's functions
ipu net, with td.options(engine=...) around its calls,
mtia net, with td.options(engine=...) around its calls,
"""

OPTIMIZERS = """
ASGD td.optim.SGD with td.optim.WeightAverage
Adafactor ~ td.optim.Adam
Adamax ~ td.optim.Adam
Muon ~ td.optim.Momentum
NAdam ~ td.optim.Adam
RAdam ~ td.optim.Adam with td.optim.schedules.warm_up
RMSprop td.optim.RMSProp
Rprop ~ td.optim.RMSProp
SparseAdam td.optim.Adam, whose updates are of rows where gradients are,
lr_scheduler td.optim.schedules
swa_utils td.optim.WeightAverage
"""

SCHEDULES = """
ChainedScheduler a function of the step that multiplies schedules
ConstantLR td.optim.schedules.constant
CosineAnnealingLR td.optim.schedules.cosine
CosineAnnealingWarmRestarts td.optim.schedules.cosine of the step modulo a period
CyclicLR td.optim.schedules.cyclic
ExponentialLR td.optim.schedules.exponential
LRScheduler td.optim.schedules.Schedule
LambdaLR a function of the step, given as lr=,
LinearLR td.optim.schedules.warm_up
MultiStepLR td.optim.schedules.piecewise
MultiplicativeLR td.optim.schedules.exponential
OneCycleLR td.optim.schedules.warm_up of td.optim.schedules.cosine
PolynomialLR td.optim.schedules.polynomial
ReduceLROnPlateau td.train.ReduceLROnPlateau
SequentialLR ~ td.optim.schedules.piecewise
StepLR td.optim.schedules.step
"""

OPTIMIZER = """
register_load_state_dict_post_hook opt.load_state_dict(state, rename=...)
register_load_state_dict_pre_hook opt.load_state_dict(state, rename=...)
register_state_dict_post_hook opt.state_dict(), which is a dict to change,
register_state_dict_pre_hook opt.state_dict(), which is a dict to change,
register_step_post_hook a td.train.Callback
register_step_pre_hook a td.train.Callback
"""

DATA = """
BatchSampler td.data.Loader(batch_size=...)
ChainDataset td.data.ListDataset of a list of all examples
ConcatDataset td.data.ListDataset of a list of all examples
DataLoader td.data.Loader
DistributedSampler td.data.Loader(seed=...)
IterableDataset td.data.ListDataset
RandomSampler td.data.Loader(shuffle=True)
Sampler td.data.Loader
SequentialSampler td.data.Loader(shuffle=False)
StackDataset td.data.ArrayDataset
Subset td.data.ListDataset of a part of the examples
SubsetRandomSampler td.data.Loader of a part of the examples
TensorDataset td.data.ArrayDataset
WeightedRandomSampler td.random.categorical
MapDataPipe td.data.ListDataset
IterDataPipe td.data.ListDataset
default_convert td.asarray
default_collate td.data.ListDataset(collate=...)
get_worker_info td.data.Loader(prefetch=...)
random_split td.data.permutation
"""

LINALG = """
cholesky_ex td.linalg.cholesky
householder_product td.linalg.qr
inv_ex td.linalg.inv
ldl_factor ~ td.linalg.cholesky
ldl_factor_ex ~ td.linalg.cholesky
ldl_solve td.linalg.solve
lu ~ td.linalg.qr
lu_factor ~ td.linalg.qr
lu_factor_ex ~ td.linalg.qr
lu_solve td.linalg.solve
multi_dot td.linalg.matmul, one after the other
solve_ex td.linalg.solve
solve_triangular td.linalg.triangular_solve
tensorinv ~ td.linalg.inv of a td.reshape
tensorsolve ~ td.linalg.solve of a td.reshape
vander td.pow(x[:, None], td.arange(n))
"""

FFT = """
fft2 td.fft.fftn(x, axes=(-2, -1))
hfft2 ~ td.fft.hfft
hfftn ~ td.fft.hfft
ifft2 td.fft.ifftn(x, axes=(-2, -1))
ihfft2 ~ td.fft.ihfft
ihfftn ~ td.fft.ihfft
irfft2 td.fft.irfftn(x, axes=(-2, -1))
rfft2 td.fft.rfftn(x, axes=(-2, -1))
"""
