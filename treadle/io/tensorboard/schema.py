"""The messages of an event file, as TensorFlow's .proto files number their fields."""

from __future__ import annotations

from treadle.io.protobuf import Schema

EVENTS: Schema = {
    "Event": {
        1: ("wall_time", "double"),
        2: ("step", "int64"),
        3: ("file_version", "string"),
        4: ("graph_def", "bytes"),
        5: ("summary", "Summary"),
        7: ("session_log", "SessionLog"),
    },
    "SessionLog": {1: ("status", "enum")},
    "Summary": {1: ("value", "Value*")},
    "Value": {
        1: ("tag", "string"),
        2: ("simple_value", "float"),
        4: ("image", "Image"),
        5: ("histo", "Histogram"),
        6: ("audio", "Audio"),
        8: ("tensor", "Tensor"),
        9: ("metadata", "Metadata"),
    },
    "Image": {
        1: ("height", "int64"),
        2: ("width", "int64"),
        3: ("colorspace", "int64"),
        4: ("encoded_image_string", "bytes"),
    },
    "Histogram": {
        1: ("min", "double"),
        2: ("max", "double"),
        3: ("num", "double"),
        4: ("sum", "double"),
        5: ("sum_squares", "double"),
        6: ("bucket_limit", "double*"),
        7: ("bucket", "double*"),
    },
    "Audio": {
        1: ("sample_rate", "float"),
        2: ("num_channels", "int64"),
        3: ("length_frames", "int64"),
        4: ("encoded_audio_string", "bytes"),
        5: ("content_type", "string"),
    },
    "Metadata": {1: ("plugin_data", "Plugin")},
    "Plugin": {1: ("plugin_name", "string"), 2: ("content", "bytes")},
    "HParams": {
        1: ("version", "int64"),
        2: ("experiment", "Experiment"),
        3: ("session_start_info", "SessionStart"),
        4: ("session_end_info", "SessionEnd"),
    },
    "Experiment": {
        3: ("time_created_secs", "double"),
        4: ("hparam_infos", "HParamInfo*"),
        5: ("metric_infos", "MetricInfo*"),
    },
    "HParamInfo": {1: ("name", "string"), 4: ("type", "enum")},
    "MetricInfo": {1: ("name", "MetricName")},
    "MetricName": {1: ("group", "string"), 2: ("tag", "string")},
    "SessionStart": {
        1: ("hparams", "Any{}"),
        4: ("group_name", "string"),
        5: ("start_time_secs", "double"),
    },
    "SessionEnd": {1: ("status", "enum"), 2: ("end_time_secs", "double")},
    "Any": {
        2: ("number_value", "double"),
        3: ("string_value", "string"),
        4: ("bool_value", "bool"),
    },
    "Tensor": {
        1: ("dtype", "enum"),
        2: ("tensor_shape", "Shape"),
        8: ("string_val", "bytes*"),
    },
    "Shape": {2: ("dim", "Extent*")},
    "Extent": {1: ("size", "int64"), 2: ("name", "string")},
    "GraphDef": {1: ("node", "Node*"), 4: ("versions", "Versions")},
    "Versions": {1: ("producer", "int64")},
    "Node": {
        1: ("name", "string"),
        2: ("op", "string"),
        3: ("input", "string*"),
        4: ("device", "string"),
        5: ("attr", "Attribute{}"),
    },
    "Attribute": {
        1: ("list", "Attributes"),
        2: ("s", "bytes"),
        3: ("i", "int64"),
        5: ("b", "bool"),
        6: ("type", "enum"),
        7: ("shape", "Shape"),
    },
    "Attributes": {7: ("shape", "Shape*")},
}
