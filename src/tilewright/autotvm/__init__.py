"""Templates with knobs and the search for their best values: `from tilewright import autotvm`.

Names only, resolved when first used; what they do stands in template/ and measure/.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "template.task": "template",
        "template.space": "ConfigSpace ConfigEntity FallbackConfigEntity InstantiationError",
        "template.context": (
            "ApplyGraphBest DispatchContext ApplyConfig ApplyFixedConfig ApplyHistoryBest "
            "apply_history_best=ApplyHistoryBest FallbackContext get_config"
        ),
        "template.measure": "LocalBuilder LocalRunner create_measure_batch measure_option",
        "template.fleet": "DaskRunner RPCRunner",
        "template.topi_integration": "register_topi_compute register_topi_schedule",
        "template.record": "MeasureInput MeasureResult",
        "template.env": "GLOBAL_SCOPE",
        "measure.result": "MeasureErrorNo",
    },
    modules=(
        "callback database env feature graph_tuner measure record task testing tophub tuner utils"
    ),
)
