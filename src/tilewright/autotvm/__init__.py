"""Templates with knobs and the search for their best values: `from tilewright import autotvm`.

Names only, resolved when first used; what they do stands in template/ and measure/.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "template.task": "template",
        "template.space": "ConfigSpace ConfigEntity FallbackConfigEntity",
        "template.context": (
            "DispatchContext ApplyConfig ApplyFixedConfig ApplyHistoryBest "
            "apply_history_best=ApplyHistoryBest FallbackContext get_config"
        ),
        "template.measure": "LocalBuilder LocalRunner measure_option",
        "template.topi_integration": "register_topi_compute register_topi_schedule",
        "template.record": "MeasureInput MeasureResult",
        "template.env": "GLOBAL_SCOPE",
        "measure.result": "MeasureErrorNo",
    },
    modules="callback env measure record task tuner",
)
