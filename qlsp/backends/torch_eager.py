"""The operator table of torch eager mode quantization (``torch.ao.quantization``)."""

from __future__ import annotations

from qlsp.backends.model_makers import MODEL_BUILDERS, MODEL_MAKERS, PLAIN_DECORATORS
from qlsp.backends.spec import Backend
from qlsp.backends.torch_fusers import FUSERS
from qlsp.backends.torch_keep import KEEP
from qlsp.backends.torch_lifecycle import EMBEDDING_QCONFIGS, LIFECYCLE, QCONFIG_MAKERS, QCONFIG_MODES, QCONFIGS
from qlsp.backends.torch_modules import MODULES, TRAINED
from qlsp.backends.torch_moves import MOVED
from qlsp.backends.torch_names import ALIASES
from qlsp.backends.torch_qconfigs import WEIGHTS
from qlsp.backends.torch_refuse import REFUSE
from qlsp.backends.torch_stubs import FUNCTIONAL_CLASSES, FUNCTIONALS, STUBS

EAGER = Backend(
    name="torch-eager",
    rows=(*STUBS, *FUNCTIONALS, *KEEP, *REFUSE, *MODULES),
    aliases=ALIASES,
    functional_classes=FUNCTIONAL_CLASSES,
    lifecycle=LIFECYCLE,
    qconfigs=QCONFIGS,
    qconfig_makers=QCONFIG_MAKERS,
    qconfig_modes=QCONFIG_MODES,
    fusers=FUSERS,
    embedding_qconfigs=EMBEDDING_QCONFIGS,
    trained_modules=TRAINED,
    weights=WEIGHTS,
    moved=MOVED,
    model_makers=MODEL_MAKERS,
    model_builders=MODEL_BUILDERS,
    plain_decorators=PLAIN_DECORATORS,
)
