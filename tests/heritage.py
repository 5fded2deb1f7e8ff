"""What the five systems had, by group: `who: what; what; ...` on each line.

M is Marian's graph, N Nervana Graph, D DyNet, O Owl, S Serrano. docs/heritage.md has a
row for each; tests/test_heritage.py holds the two together.
"""

from __future__ import annotations

__all__ = ["CANON"]

_TEXT = """
# Element by element
MNDO: negative
MNDOS: absolute; square; sqrt; exp; log; sin; cos; tanh
MNO: sign
D: cube; round, floor, ceil with a gradient that is zero or passes straight through;
  lgamma
M: sqrt with eps added; tanh of a sum of several; bump; murmur hash
S: rsqrt; expm1; log1p; rint; degree; radian
N: reciprocal; safelog, cut at exp(-50)
OS: log2; log10; copy
MDOS: floor; ceil; round; tan
DOS: asin; acos; atan; sinh; cosh; asinh; acosh; atanh
MD: erf
O: dawsn
# Activations
MNDOS: sigmoid; relu; softmax
N: sigmoidAtomic, safe where it saturates; clipped relu; normalizer by a constant
O: hard sigmoid; relu6; trelu; an activation of one's own
D: log_sigmoid; log_softmax over a list of classes; constrained_softmax
MNOS: leaky relu
MS: p-relu
S: thresholded relu
NDOS: elu
DS: selu
M: gelu; swish with a factor b; softmax with a mask
MD: swish, silu; log_softmax; sparsemax
OS: softplus
DOS: softsign
NOS: identity, linear
# Of two operands
MNDOS: add; subtract; multiply; divide; pow; operands that broadcast
OS: rdiv, a scalar over an array
N: floordivide; mod; operands that meet by the names of their axes
MDO: a number on either side
D: colwise_add; min and max of a list
MNDO: maximum; minimum
O: atan2; hypot; fma
M: logaddexp; logical and; logical or; logical not; if_then_else
MNO: equal; not equal; less; less or equal; greater; greater or equal
# Limits of values and of gradients
MO: clip by value
O: clip by L2 norm
M: clip the gradient
D: scale the gradient; flip the gradient
MND: stop the gradient (stopGradient, nobackprop)
# Reductions
MNDOS: sum; max; min
MNDS: mean
MNS: variance; product
MD: standard deviation; scalar_product, dot_product
MND: argmax
MN: argmin
D: argmax with a gradient that passes straight through; moment of order k;
  sum_batches, mean_batches, moment_batches, std_batches; sum_rows, sum_cols,
  average_cols; mean_dim, moment_dim, std_dim with a count of one's own; sum and
  average of a list
MDO: logsumexp
S: median
NO: L1 norm; several axes at once
NDO: L2 norm; squared L2 norm
N: tensor_size; batch_size
MOS: axes that are kept with length 1
M: weighted_average
# Scans and orders
MD: cumsum; topk
M: cumsum reversed, exclusive; logcumsumexp; sort; topkIndices, topkValues
O: scan; fold; map
# Shapes
MDO: reshape
MNO: flatten
M: flatten_2d; swapAxes; shift with a value for what is empty; cast; atleast_1d;
  atleast_2d; atleast_3d; atleast_4d, atleast_nd; constant_like
N: flatten_at; unflatten; contiguous; axes in another order (axes_with_order,
  ReorderAxes); cast_axes; cast_role, map_roles; UnsliceOp
MNDOS: transpose
NS: broadcast
NO: expand_dims; stack; pad
O: squeeze; split; tile; reverse; diag, diagm; tril; triu
MNDO: concatenate
D: concatenate_cols; concatenate_to_batch
MO: repeat
# Parts and positions
MNO: slice
N: slice_along_axis; one-d assign; lookup with a padding row
D: strided_select; pick; pick_range; pick_batch_elem, pick_batch_elems
M: narrow; index_select; gather; scatter; choose one of several nodes
MD: rows, select_rows; cols, select_cols
NDO: one_hot
O: get; set; get_slice; set_slice; get_fancy; set_fancy; row, rows; row_num, col_num;
  copy_row_to, copy_col_to; to_rows, to_cols; of_rows, of_cols; draw
MND: lookup
ND: lookup without update (const_lookup); gradients of a lookup as rows
# Linear algebra
MNDOS: matrix product
MOS: matrix product of transposes, with a scale
M: product of stacks of matrices, whose leading axes broadcast; affine with relu and
  dropout; sparse rows times dense (csr_dot); dense times sparse rows (dot_csr);
  products of 8-bit weights; products of 16-bit weights (intgemm16)
MD: affine
N: dot over the axes in common
D: contract3d_1d; contract3d_1d_1d; outer product; circ_conv; circ_corr;
  trace_of_product
DO: inverse; logdet
O: trace; kron; cholesky; qr; lq; svd; sylvester; lyapunov; discrete lyapunov;
  linsolve; care; dare
# Convolution and pooling
NO: convolution over 1 dimension; convolution over 3 dimensions; dilated convolution;
  transposed convolution over 1 dimension; transposed convolution over 2 dimensions;
  transposed convolution over 3 dimensions; gradient by the input (bprop_conv,
  backward_input); gradient by the kernel (update_conv, backward_kernel); max pooling
  over 1 dimension; max pooling over 3 dimensions; average pooling over 1 dimension;
  average pooling over 3 dimensions
MNDOS: convolution over 2 dimensions; max pooling over 2 dimensions
NDOS: padding: valid, same, a number
N: causal padding
D: filter1d_narrow; kmh_ngram; fold_rows; kmax_pooling
S: img2col; sum pooling
MNOS: average pooling over 2 dimensions
O: global max pooling; global average pooling; upsampling
M: pooling with masking
MS: channels first and last (convert2cudnnFormat, channelOrder)
# Normalization
MD: layer normalization
M: RMS normalization; highway
NOS: batch normalization; batch normalization with running statistics, and in
  inference
N: batch normalization of an LSTM's gates
D: weight normalization
# Recurrent networks and attention
MNDO: rnn with tanh; lstm (vanilla)
MN: rnn with relu
MDO: gru
M: output by locality-sensitive hashing (output-approx-knn); universal language
  representation (ulr); gru of Nematus; mlstm; mgru; sru; ssru; deep transitions;
  attention of Bahdanau; multi-head attention; ALiBi; transformer encoder;
  transformer decoder; transformer from tokens to tokens, step by step; guided
  alignment; SSRU in place of self-attention
D: lstm, compact; lstm, coupled, with peepholes; lstm, deep; lstm, sparse; variational
  dropout of states; noise on the weights; add_input, prev, set_s, transduce;
  tree-LSTM, n-ary; tree-LSTM, one after the other; tree-LSTM, both ways; words of
  characters; softmax factored by classes; hierarchical softmax
MD: lstm, fast; lstm with layer normalization; fused cells (GRUFast, LSTMCell,
  vanilla_lstm_gates)
MND: bidirectional networks
N: states kept from one sequence to the next (reset_cells)
# Losses
MN: cross entropy of several classes
N: cross entropy of two classes; cross entropy in bits; softmax and cross entropy met
  without overflow; sigmoid and cross entropy met without overflow; ctc
M: cross entropy with smoothed labels; unlikelihood
D: pickneglogsoftmax; hinge over classes, along a dimension; huber distance; binary
  log loss; pairwise rank loss; poisson loss; sparsemax loss
DO: hinge; squared distance, quadratic loss; L1 distance
O: L2 norm as a loss
# Random numbers
MNDO: uniform; normal; dropout
MDO: bernoulli
MD: gumbel; dropout along dimensions (dropout_dim, shape, axes)
DO: additive noise
D: dropout of whole examples (dropout_batch); dropout of all or nothing
  (block_dropout); one mask for a sequence; a class drawn by its probability
O: alpha dropout; gaussian dropout
M: dropoutMask
MND: the state of the random numbers
# Values, state and control
MNDO: constant
MDO: zeros; ones
MO: eye; sequential numbers, range; several results of one node (get)
O: create, a value everywhere; init by a function of the index; empty; delay: a
  function of the host; delay_array: with a shape of its own; lambda layers of one or
  several inputs
M: indices; lambda with a gradient of one's own; callback; debug; checkpoint of
  memory; several roots (removeAsRoot)
N: placeholder; persistent tensor; temporary; first value that is a graph
  (InitTensorOp); fill; set_item; value_of; sequential; doall; computation
DO: input that can be set again
MD: sparse input; parameter that is not trained (fixed, const_parameter)
NO: variable; assign; print
MDS: parameter
D: lookup parameter; to_device
# Between processes
N: send; recv; scatter; gather; all_reduce; broadcast
# Facilities of the graph
MDO: a graph for each sample, defined by running; forward of new nodes alone; a seed
  for all draws
MNDOS: values on request; memory reused, values written in place; order of effects;
  shapes inferred, graphs verified, with messages; values and gradients printed;
  graphviz; GPU engines, by CUDA, Metal or OpenCL; gradients checked by differences;
  training, validation, inference modes; fully connected layer
NDOS: evaluation again after an input has changed
D: checkpoint and revert of the graph; automatic batching; weights saved: DyNet's
  text; norms of a collection, weights projected to a radius
MNOS: several graphs at once; a model with fit and predict
M: equal expressions computed once; memory of gradients traded for time; weights
  saved: Marian's bin, mapped; weights saved: Marian's bin, encrypted; parameters
  copied from another graph (copyParams); the
  largest batch that fits (fits, mini-batch-fit); graph exported: ONNX
N: graph saved: protobuf; logs for TensorBoard: scalars, histograms, images, audio,
  graphs; importers: TensorFlow, Caffe, Caffe2, CNTK, MXNet, ONNX (all write ONNX today)
NO: what nobody reads is not computed; derivatives as graphs, of any order; a whole
  training step compiled once; picture of the memory; layers in a row; batches: full,
  small, drawn, one by one
MNO: constants folded; algebraic rules
N: patterns with names, optional parts, any order of operands; derivative of any node
  by any other; layouts chosen; metadata of nodes; all ops of a graph, found by kind
  or note; branches beside each other, residual modules; callbacks of training: cost,
  time, progress, log
MNDO: kernels fused; graph saved; optimizer's state saved
O: jacobian, jacobianv, jacobianTv; hessian, hessianv; laplacian, gradhessian; forward
  and reverse mode, nested; complex numbers; summary of a network
ND: named axes; text of a graph; profiler
MS: parallel branches
DOS: immediate mode
MD: NaN and infinity found; word vectors
MN: weights saved: npz; weights of few bits in training; float16
O: weights saved whole (Marshal)
S: weights read: FlatBuffers
M: mini-batches that grow at first (mini-batch-warmup)
MO: float64; training that goes on where it stopped
MNDS: several devices
MNS: the source line of a node
MND: sub-collections of parameters by name
S: staged order of a graph
MDS: memory reserved before, and told
# Optimizers
MNDOS: SGD
NDOS: momentum
NO: Nesterov
D: cyclical SGD; Adadelta; AMSGrad; exponentiated gradient
M: Adagrad, eps beside the root; AdamW
NDO: Adagrad, eps inside the root
DO: RMSProp
N: RMSProp with momentum, state from 1
MNDO: Adam
O: conjugate gradients: CG; conjugate gradients: CD; conjugate gradients: nonlinear;
  conjugate gradients: Dai-Yuan; Newton; NewtonCG
# Schedules
MNDOS: constant rate
N: step; schedule list; exponential, base gamma^i; inverse; polynomial; sigmoid rate;
  provided by a placeholder
O: a list taken in turn
OS: exponential, a e^(-k i); 1 / (1 + k i)
S: linear, a - k i
M: inverse square root; linear warm-up; cyclic warm-up; warm-up again at reload; decay
  by epochs; decay by batches; decay where validation stalls; rate in proportion to
  the words of a batch
D: triangular, cyclical
# Gradients under control
MNDO: clip by the global norm
MNO: clip element by element
N: clip the weights; Kahan's sum in updates
D: settings by collection of parameters; updates of rows alone; updates of all rows
  (sparse_updates off); update_subset
M: average of the gradient's norm, dynamic scaling; gradients divided by the count of
  words (normalize-gradient); scale of the loss, dynamic; steps that are not finite
  left out; divergence raises; accumulation over a fraction; float32 copies of 16-bit
  weights
MD: steps that are not finite raise; accumulation over k batches
NS: gradients of chosen parameters alone (updatable)
MOS: early stopping
# Regularization and averages
MN: weight decay beside the gradient
N: weight decay in the gradient
D: weight decay as a lazy scale; cumulative average
O: L1 in the loss; L2 in the loss; elastic net
M: exponential smoothing with a ramp
DS: exponential average with bias correction
MD: averages swapped in and out
# Initializers
MNDOS: zeros at first
MO: ones at first; Glorot normal; a function of one's own (fromLambda, Custom)
MND: a constant at first
MD: eye, identity at first; a vector, NumPy's array; a file; word vectors at first
MNDO: uniform at first; normal at first; Glorot uniform
M: bernoulli at first; a range at first; sinusoidal positions; gumbel at first; a
  sparse vector; Glorot by one fan alone; rotation
N: Xavier, sqrt(3 / in)
NO: Kaiming, He
O: LeCun; standard, sqrt(1 / in); tanh
D: Saxe, orthonormal
# Statements of their documents
M: S1: z = x y + sin(x) is 6.9093; S2: its derivative is 2.58385; S3: a step of
  descent gives 1.98708; S4: constants cannot be trained; S5: a picture before and
  after running; S6: debug tells value and gradient; S7: optimizers, and backward with
  forward in one; S8: items, files, buffers, checkpoints, parameters by type
N: S9: what is assigned before is read after; S10: each evaluation updates; S11: under
  a guard only what is named; S12: what a node tells of itself; S13: used twice and
  computed once, there when asked for later; S14: a derivative is a graph, and its
  variables
D: S15: a graph a sample, models and trainers apart; S16: backward steps as nodes of
  the graph (a wish)
O: S17: time and memory of the MNIST network; S18: nodes of that network before and
  after; S19: nodes of the LSTM, and the time to compile it; S20: labels in the
  picture; S21: the optimizations by name; S22: a graph that repeats found by itself
  (a wish); S23: compiled before it runs (a wish)
S: S24: stages are longest paths; S25: verification says whether and what; S26: all
  memory at once, gradients of what is updated alone; S27: fit until an epoch or an
  early stop, predict
"""


def _read(text: str) -> dict[str, dict[str, str]]:
    """Group -> what they had -> who, in the order of the text."""
    found: dict[str, dict[str, str]] = {}
    for line in text.strip().replace("\n  ", " ").splitlines():
        if line.startswith("# "):
            group = found.setdefault(line[2:], {})
            continue
        who, _, had = line.partition(": ")
        for one in had.split("; "):
            assert one not in group, f"{one!r} stands twice"
            group[one] = who
    return found


CANON = _read(_TEXT)
