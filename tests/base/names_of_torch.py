"""Names of torch 2.13 by the place they stand in: those that people write.

Of torch.nn, its functional, torch.linalg, torch.fft, torch.optim, its schedulers and
torch.utils.data all that is public; of torch, of Tensor and of Module those that are
used the most.
"""

from __future__ import annotations

PLACES = {
    "treadle": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor
        Generator GradScaler HalfTensor IntTensor LongTensor OutOfMemoryError
        ShortTensor Size Tensor abs abs_ absolute acos acos_ acosh acosh_
        adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv addcmul addmm addmv
        addr adjoint all allclose alpha_dropout amax amin aminmax angle any arange
        arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2
        arctan_ arctanh arctanh_ argmax argmin argsort argwhere as_strided as_tensor
        asarray asin asin_ asinh asinh_ atan atan2 atan_ atanh atanh_ atleast_1d
        atleast_2d atleast_3d autocast avg_pool1d baddbmm bartlett_window batch_norm
        bernoulli bfloat16 bilinear binary_cross_entropy_with_logits bincount binomial
        bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor blackman_window block_diag bmm bool broadcast_shapes
        broadcast_tensors broadcast_to bucketize cat cdist cdouble ceil ceil_ celu
        celu_ cfloat chain_matmul channel_shuffle channels_last cholesky
        cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_
        clamp_min clamp_min_ clip clip_ clone column_stack combinations compile
        complex complex128 complex64 concat concatenate cond conj constant_pad_nd
        contiguous_format conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d copysign cos cos_ cosh cosh_ cosine_embedding_loss
        cosine_similarity count_nonzero cross ctc_loss cummax cummin cumprod cumsum
        deg2rad deg2rad_ dequantize det detach device diag diag_embed diagflat
        diagonal diagonal_scatter diff digamma dist div divide dot double dropout
        dsplit dstack eig einsum embedding embedding_bag empty empty_like
        empty_strided enable_grad eq equal erf erf_ erfc erfc_ erfinv exp exp2 exp_
        expm1 expm1_ eye fill fix fix_ flatten flip fliplr flipud float float16
        float32 float64 float_power floor floor_ floor_divide fmax fmin fmod frac
        frexp frobenius_norm from_numpy frombuffer full full_like gather gcd ge geqrf
        ger get_default_device get_default_dtype get_num_threads get_rng_state greater
        greater_equal group_norm gru gru_cell gt half hamming_window hann_window
        hardshrink heaviside hinge_embedding_loss histc histogram histogramdd hsplit
        hstack hypot i0 igamma igammac imag index_add index_copy index_fill index_put
        index_reduce index_select inference_mode initial_seed inner instance_norm int
        int16 int32 int64 int8 inverse is_floating_point is_grad_enabled is_signed
        is_tensor isclose isfinite isin isinf isnan isneginf isposinf isreal
        kaiser_window kl_div kron kthvalue layer_norm lcm ldexp le lerp less
        less_equal lgamma lgamma_ linspace load lobpcg log log10 log10_ log1p log1p_
        log2 log2_ log_ log_softmax logaddexp logaddexp2 logcumsumexp logdet
        logical_and logical_not logical_or logical_xor logit logspace logsumexp long
        lstm lstm_cell lstsq lt lu lu_solve lu_unpack manual_seed margin_ranking_loss
        masked_fill masked_scatter masked_select matmul matrix_exp matrix_power
        matrix_rank max max_pool1d max_pool2d max_pool3d maximum mean median meshgrid
        min minimum mm mode moveaxis movedim msort mul multinomial multiply mv
        mvlgamma nan_to_num nan_to_num_ nanmean nanquantile nansum narrow narrow_copy
        ne neg neg_ negative negative_ no_grad nonzero nonzero_static norm normal
        not_equal nuclear_norm numel ones ones_like orgqr ormqr outer
        pairwise_distance pca_lowrank pdist permute pinverse pixel_shuffle
        pixel_unshuffle poisson poisson_nll_loss polar polygamma positive pow prelu
        prod put qr quantile rad2deg rad2deg_ rand rand_like randint randint_like
        randn randn_like randperm range ravel real reciprocal reciprocal_ relu relu_
        remainder renorm repeat_interleave reshape rms_norm roll rot90 round round_
        row_stack rrelu_ rsqrt rsqrt_ rsub save scalar_tensor scatter scatter_add
        searchsorted seed select select_scatter selu selu_ set_default_dtype
        set_grad_enabled set_num_threads set_rng_state sgn short sigmoid sigmoid_ sign
        sign_ signbit sin sin_ sinc sinc_ sinh sinh_ slice_scatter slogdet softmax
        solve sort sparse_coo_tensor sparse_csr_tensor split split_with_sizes spmm
        sqrt sqrt_ square square_ squeeze stack std std_mean sub subtract sum svd
        svd_lowrank swapaxes swapdims symeig t take take_along_dim tan tan_ tanh tanh_
        tensor tensor_split tensordot threshold threshold_ tile topk trace transpose
        trapezoid trapz triangular_solve tril triplet_margin_loss triu true_divide
        trunc trunc_ uint16 uint32 uint64 uint8 unbind unflatten unique unsafe_chunk
        unsafe_split unsqueeze use_deterministic_algorithms vander var var_mean vdot
        view_as_complex view_as_real vmap vsplit vstack where while_loop xlogy zeros
        zeros_like
    """,
    "Tensor": """
        H T abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm
        addcdiv addcdiv_ addcmul addcmul_ addmm addmv addmv_ addr adjoint all allclose
        amax amin aminmax angle any arccos_ arccosh_ arcsin_ arcsinh_ arctan2_ arctan_
        arctanh_ argmax argmin argsort argwhere as_strided_ asin asin_ asinh asinh_
        atan atan2 atan2_ atan_ atanh atanh_ backward baddbmm bernoulli bernoulli_
        bfloat16 bincount bitwise_and bitwise_and_ bitwise_not bitwise_or bitwise_or_
        bitwise_xor bitwise_xor_ bmm bool broadcast_to byte cdouble ceil ceil_ cfloat
        char cholesky cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max
        clamp_min clip clip_ clone coalesce conj contiguous copy_ copysign corrcoef
        cos cos_ cosh count_nonzero cpu cross cuda cummax cummin cumprod cumprod_
        cumsum cumsum_ data deg2rad_ dequantize det detach detach_ diag diag_embed
        diagonal diagonal_scatter diff digamma digamma_ dim dist div div_ divide dot
        double dsplit dtype eig element_size eq eq_ equal erf erf_ erfc erfc_ erfinv
        exp exp2 exp_ expand expand_as expm1 fill_ fix fix_ flatten flip float
        float_power_ floor floor_ floor_divide fmax fmin fmod frac frac_ frexp gather
        gcd ge ge_ geqrf ger grad greater greater_ greater_equal greater_equal_ gt gt_
        half hardshrink histc histogram hypot hypot_ i0 igamma igammac imag index_add
        index_add_ index_copy index_copy_ index_fill index_put index_reduce
        index_reduce_ index_select inner int inverse is_complex is_contiguous is_cpu
        is_cuda is_floating_point is_leaf is_nonzero is_quantized is_same_size
        is_signed isclose isfinite isinf isnan isneginf isposinf istft item kron
        kthvalue lcm ldexp le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma
        lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ log_softmax logaddexp
        logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor
        logical_xor_ logit logsumexp long lt lt_ lu lu_solve mT masked_fill
        masked_fill_ masked_scatter masked_select matmul matrix_exp matrix_power max
        maximum mean median min minimum mm mode moveaxis movedim msort mul mul_
        multinomial multiply mv mvlgamma name nan_to_num nanmean nanquantile nansum
        narrow narrow_copy nbytes ndim ndimension ne ne_ neg neg_ negative negative_
        nelement new_empty new_full new_ones new_tensor new_zeros nextafter nextafter_
        nonzero nonzero_static norm normal_ not_equal not_equal_ numel numpy outer
        permute pin_memory pinverse polygamma polygamma_ positive pow pow_ prelu prod
        put qr quantile rad2deg_ ravel real reciprocal reciprocal_ register_hook relu
        relu_ remainder renorm repeat repeat_interleave requires_grad requires_grad_
        reshape reshape_as resize resize_as retain_grad roll rot90 round round_ rsqrt
        rsqrt_ scatter scatter_ scatter_add scatter_add_ scatter_reduce
        scatter_reduce_ select select_scatter sgn sgn_ shape share_memory_ short
        sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh size
        slice_scatter slogdet softmax solve sort split split_with_sizes sqrt sqrt_
        square square_ squeeze squeeze_ std stft storage stride sub sub_ subtract sum
        svd swapaxes swapaxes_ swapdims swapdims_ symeig t t_ take take_along_dim tan
        tan_ tanh tanh_ tensor_split tile to to_dense to_sparse to_sparse_coo
        to_sparse_csr tolist topk trace transpose transpose_ triangular_solve tril
        tril_ triu triu_ true_divide trunc trunc_ type type_as unbind unflatten unfold
        uniform_ unique unique_consecutive unsafe_chunk unsafe_split unsqueeze
        unsqueeze_ untyped_storage var vdot view view_as where xlogy xlogy_ zero_
    """,
    "treadle.nn": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d
        AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
        AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss
        BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer CELU
        CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
        ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d ConvTranspose1d
        ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity
        CrossEntropyLoss CrossMapLRN2d DataParallel Dropout Dropout1d Dropout2d
        Dropout3d ELU Embedding EmbeddingBag FeatureAlphaDropout Flatten Fold
        FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss
        GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss
        HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss
        L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d
        LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
        LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
        LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear
        LinearCrossEntropyLoss LocalResponseNorm LogSigmoid LogSoftmax MSELoss
        MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d
        MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss
        MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d
        PReLU PairwiseDistance Parameter ParameterDict ParameterList PixelShuffle
        PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase RNNCell RNNCellBase RReLU
        ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
        ReplicationPad2d ReplicationPad3d SELU Sequential SiLU Sigmoid SmoothL1Loss
        SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign
        SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder
        TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer
        TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold
        UninitializedParameter Upsample UpsamplingBilinear2d UpsamplingNearest2d
        ZeroPad1d ZeroPad2d ZeroPad3d
    """,
    "treadle.nn.init": """
        calculate_gain constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_
        ones_ orthogonal_ sparse_ trunc_normal_ uniform_ xavier_normal_
        xavier_uniform_ zeros_
    """,
    "treadle.nn.functional": """
        Tensor adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid
        alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear
        binary_cross_entropy binary_cross_entropy_with_logits celu celu_
        channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity
        cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu elu_
        embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
        fractional_max_pool3d gaussian_nll_loss gelu glu grid_sample group_norm
        gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_
        hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss
        layer_norm leaky_relu leaky_relu_ linear linear_cross_entropy
        local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d
        margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d
        max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize one_hot
        pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss
        prelu relu relu6 relu_ rms_norm rrelu scaled_dot_product_attention selu selu_
        sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus
        softshrink softsign tanh tanhshrink threshold triplet_margin_loss
        triplet_margin_with_distance_loss unfold upsample upsample_bilinear
        upsample_nearest
    """,
    "treadle.nn.utils": """
        clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_
        fuse_conv_bn_eval get_total_norm parameters_to_vector parametrizations
        parametrize prune remove_spectral_norm remove_weight_norm rnn skip_init
        spectral_norm stateless vector_to_parameters weight_norm
    """,
    "treadle.optim": """
        ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer
        RAdam RMSprop Rprop SGD SparseAdam lr_scheduler swa_utils
    """,
    "treadle.optim.schedules": """
        ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts
        CyclicLR ExponentialLR LRScheduler LambdaLR LinearLR MultiStepLR
        MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR
        Tensor
    """,
    "treadle.data": """
        BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler
        IterDataPipe IterableDataset MapDataPipe RandomSampler Sampler
        SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset
        WeightedRandomSampler default_collate default_convert get_worker_info
        random_split
    """,
    "treadle.linalg": """
        cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh
        householder_product inv inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu
        lu_factor lu_factor_ex lu_solve matmul matrix_exp matrix_norm matrix_power
        matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd
        svdvals tensorinv tensorsolve vander vecdot vector_norm
    """,
    "treadle.fft": """
        fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift
        ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn
    """,
    "Module": """
        add_module apply bfloat16 buffers children compile cpu cuda double eval
        extra_repr float forward get_buffer get_parameter get_submodule half ipu
        load_state_dict modules mtia named_buffers named_children named_modules
        named_parameters parameters register_backward_hook register_buffer
        register_forward_hook register_forward_pre_hook register_full_backward_hook
        register_module register_parameter requires_grad_ reset_parameters
        share_memory state_dict to train type zero_grad
    """,
}
NAMES = [(place, name) for place, names in PLACES.items() for name in names.split()]
