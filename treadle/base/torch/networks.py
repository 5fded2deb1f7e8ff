"""Names of torch.nn, torch.optim and torch.utils.data, and what stands for them."""

__all__ = [
    "DATA",
    "FUNCTIONAL",
    "LAYERS",
    "MODULE",
    "OPTIMIZER",
    "OPTIMIZERS",
    "SCHEDULES",
]

LAYERS = """
AdaptiveAvgPool1d td.nn.AdaptiveAvgPool
AdaptiveAvgPool2d td.nn.AdaptiveAvgPool
AdaptiveAvgPool3d td.nn.AdaptiveAvgPool
AdaptiveLogSoftmaxWithLoss ~ td.nn.ClassFactoredSoftmax
AdaptiveMaxPool1d ~ td.nn.GlobalMaxPool
AdaptiveMaxPool2d ~ td.nn.GlobalMaxPool
AdaptiveMaxPool3d ~ td.nn.GlobalMaxPool
Buffer td.Variable, assigned to an attribute,
ChannelShuffle td.reshape, td.swapaxes and td.reshape
CircularPad1d td.pad(x, widths, mode="wrap")
CircularPad2d td.pad(x, widths, mode="wrap")
CircularPad3d td.pad(x, widths, mode="wrap")
ConstantPad1d td.pad(x, widths, value=value)
ConstantPad2d td.pad(x, widths, value=value)
ConstantPad3d td.pad(x, widths, value=value)
CosineEmbeddingLoss td.cosine_embedding_loss
CosineSimilarity td.cosine_similarity
CrossMapLRN2d td.local_response_norm
DataParallel td.options(threads=...)
EmbeddingBag td.sum(td.embedding(table, ids), axis=-2)
FeatureAlphaDropout ~ td.nn.AlphaDropout
Fold td.fold
FractionalMaxPool2d ~ td.nn.MaxPool2d
FractionalMaxPool3d ~ td.nn.MaxPool3d
GaussianNLLLoss td.mean((td.log(var) + td.square(x - target) / var) / 2)
Hardshrink td.where(td.abs(x) > 0.5, x, 0.0)
HingeEmbeddingLoss td.where(target > 0, x, td.relu(margin - x))
KLDivLoss td.kl_div
LPPool1d ~ td.l2_pool
LPPool2d ~ td.l2_pool
LPPool3d ~ td.l2_pool
LazyBatchNorm1d td.nn.BatchNorm1d, of channels that are told,
LazyBatchNorm2d td.nn.BatchNorm2d, of channels that are told,
LazyBatchNorm3d td.nn.BatchNorm3d, of channels that are told,
LazyConv1d td.nn.Conv1d, of channels that are told,
LazyConv2d td.nn.Conv2d, of channels that are told,
LazyConv3d td.nn.Conv3d, of channels that are told,
LazyConvTranspose1d td.nn.ConvTranspose1d, of channels that are told,
LazyConvTranspose2d td.nn.ConvTranspose2d, of channels that are told,
LazyConvTranspose3d td.nn.ConvTranspose3d, of channels that are told,
LazyInstanceNorm1d td.nn.InstanceNorm1d, of channels that are told,
LazyInstanceNorm2d td.nn.InstanceNorm2d, of channels that are told,
LazyInstanceNorm3d td.nn.InstanceNorm3d, of channels that are told,
LazyLinear td.nn.Linear, of widths that are told,
LinearCrossEntropyLoss td.nn.CrossEntropyLoss after td.nn.Linear
NLLLoss2d td.nn.NLLLoss
RNNBase td.nn.Recurrent
RNNCellBase td.nn.Cell
UninitializedParameter td.deferred
LocalResponseNorm td.local_response_norm
MaxUnpool1d ~ td.scatter
MaxUnpool2d ~ td.scatter
MaxUnpool3d ~ td.scatter
MultiLabelMarginLoss ~ td.multi_margin_loss
MultiLabelSoftMarginLoss td.nn.BCEWithLogitsLoss
MultiMarginLoss td.multi_margin_loss
MultiheadAttention td.nn.MultiHeadAttention
PairwiseDistance td.norm(x - y, axis=-1)
Parameter td.param, or td.Parameter
ParameterDict a dict of td.Parameter, as an attribute,
PixelShuffle td.reshape, td.permute_dims and td.reshape
PixelUnshuffle td.reshape, td.permute_dims and td.reshape
RReLU ~ td.nn.LeakyReLU
ReflectionPad1d td.pad(x, widths, mode="reflect")
ReflectionPad2d td.pad(x, widths, mode="reflect")
ReflectionPad3d td.pad(x, widths, mode="reflect")
ReplicationPad1d td.pad(x, widths, mode="edge")
ReplicationPad2d td.pad(x, widths, mode="edge")
ReplicationPad3d td.pad(x, widths, mode="edge")
SoftMarginLoss td.mean(td.softplus(-target * x))
Softmax2d td.nn.Softmax(1)
Softmin td.softmin
Softshrink x - td.clip(x, -0.5, 0.5)
SyncBatchNorm td.nn.BatchNorm2d
Tanhshrink td.tanh_shrink
Threshold td.where(x > threshold, x, value)
Transformer ~ td.nn.Translator, or td.nn.TransformerEncoder and Decoder
TripletMarginLoss td.triplet_margin_loss
TripletMarginWithDistanceLoss td.triplet_margin_loss
Unfold td.unfold
UpsamplingBilinear2d td.nn.Upsample(mode="linear")
UpsamplingNearest2d td.nn.Upsample(mode="nearest")
ZeroPad1d td.pad(x, widths)
ZeroPad2d td.pad(x, widths)
ZeroPad3d td.pad(x, widths)
utils td.optim's clip_norm=..., or td.nn.WeightNorm
parameter td.Parameter
"""

FUNCTIONAL = """
adaptive_avg_pool1d td.adaptive_avg_pool
adaptive_avg_pool2d td.adaptive_avg_pool
adaptive_avg_pool3d td.adaptive_avg_pool
adaptive_max_pool1d ~ td.global_max_pool
adaptive_max_pool2d ~ td.global_max_pool
adaptive_max_pool3d ~ td.global_max_pool
affine_grid ~ td.meshgrid of td.arange
bilinear td.bilinear
channel_shuffle td.reshape, td.swapaxes and td.reshape
cosine_embedding_loss td.cosine_embedding_loss
cosine_similarity td.cosine_similarity
batch_norm td.batch_norm
conv_tbc td.nn.functional.conv1d of other axes
dropout1d td.nn.functional.channel_dropout
dropout2d td.nn.functional.channel_dropout
dropout3d td.nn.functional.channel_dropout
embedding_bag td.sum(td.embedding(table, ids), axis=-2)
feature_alpha_dropout ~ td.nn.functional.alpha_dropout
fold td.fold
gaussian_nll_loss td.mean((td.log(var) + td.square(x - target) / var) / 2)
fractional_max_pool2d ~ td.max_pool2d
fractional_max_pool3d ~ td.max_pool3d
grid_sample ~ td.gather by computed places
gumbel_softmax td.softmax((logits + td.random.gumbel(logits.shape)) / tau)
hardshrink td.where(td.abs(x) > 0.5, x, 0.0)
hinge_embedding_loss td.where(target > 0, x, td.relu(margin - x))
instance_norm td.instance_norm
kl_div td.kl_div
local_response_norm td.local_response_norm
linear_cross_entropy td.cross_entropy(td.nn.functional.linear(x, weight), target)
lp_pool1d ~ td.l2_pool
lp_pool2d ~ td.l2_pool
lp_pool3d ~ td.l2_pool
max_unpool1d ~ td.scatter
max_unpool2d ~ td.scatter
max_unpool3d ~ td.scatter
multi_head_attention_forward td.nn.MultiHeadAttention
multi_margin_loss td.multi_margin_loss
multilabel_margin_loss ~ td.multi_margin_loss
multilabel_soft_margin_loss td.nn.functional.binary_cross_entropy_with_logits
normalize td.normalize
pad td.pad, which takes a pair of widths for each dimension from the first on,
pairwise_distance td.norm(x - y, axis=-1)
pdist td.sqrt(td.squared_distance(x[:, None], x[None], axis=-1))
pixel_shuffle td.reshape, td.permute_dims and td.reshape
pixel_unshuffle td.reshape, td.permute_dims and td.reshape
rrelu ~ td.nn.functional.leaky_relu
soft_margin_loss td.mean(td.softplus(-target * x))
softmin td.softmin
softshrink x - td.clip(x, -0.5, 0.5)
tanhshrink td.tanh_shrink
threshold td.where(x > threshold, x, value)
triplet_margin_loss td.triplet_margin_loss
triplet_margin_with_distance_loss td.triplet_margin_loss
unfold td.unfold
upsample_bilinear td.upsample(mode="linear")
upsample_nearest td.upsample(mode="nearest")
celu_ td.nn.functional.celu
hardtanh_ td.nn.functional.hardtanh
relu_ td.nn.functional.relu
selu_ td.nn.functional.selu
elu_ td.nn.functional.elu
leaky_relu_ td.nn.functional.leaky_relu
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
register_module net.add_module(name, part)
share_memory net
to net.astype(dtype), as there is one device,
type net.astype(dtype)
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
