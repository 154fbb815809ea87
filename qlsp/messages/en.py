"""English texts.

A placeholder for a single name (a stub, an operator, a rule) gets its backticks here. What makes a scale
(``owner``, ``first``, ``others``) comes ready to read from the rule: a module, a fixed scale, a list of them.
Numbers were measured with torch 2.13 on the CPU. dB are SQNR of the int8 model; more is better.
"""

from __future__ import annotations

MESSAGES: dict[str, str] = {
    # What the tool itself reports
    "syntax-error": "This part is not Python that can be parsed, so no rule looked at it: {error}.",
    "unreadable-file": "The file {error}, so no rule looked at it.",
    "rule-crashed": (
        "The rule `{rule}` crashed, so its findings are missing here; please report it: {error}."
    ),
    # stale-baseline
    "stale-baseline": (
        "The baseline knows {count} of `{rule}` on `{text}` in `{where}` of {path}, and {left} occur: `--fix` takes"
        " out what is left over."
    ),
    "judged-in-root": "the model `{root}` here comes to it: {way}",
    "fix-importers-unread": "not every file that uses this code was read: look at the others first",
    "found-in-package": "it happens in `{module}`, which is of an installed package: {way}",
    # unused-suppression
    "unused-suppression": "This comment ignores nothing: there is no finding of {rules} {where}.",
    "unused-suppression-all": "This comment ignores nothing: there is no finding {where}.",
    "suppression-alone": (
        "This comment ignores nothing on a line of its own: put it at the end of a line of the statement."
    ),
    "suppression-never": "This comment ignores nothing: {rules} cannot be ignored by a comment.",
    "suppression-colon": "This comment ignores nothing: write `# qlsp: {word}`, with a colon.",
    "suppression-word": (
        "This comment ignores nothing: `{word}` is neither `ignore` nor `ignore-file`{hint}"
    ),
    "suppression-list": (
        "This comment ignores nothing: after `{word}` come rules in brackets, as in `{word}[QL101]`,"
        " or ` -- ` and a reason."
    ),
    "suppression-bracket": "This comment ignores nothing: `]` is missing after `{word}[`.",
    "suppression-empty": "This comment ignores nothing: no rule is named in `{word}[]`.",
    "suppression-rule": "This comment ignores nothing: there is no rule {rule}{hint}",
    "suppression-place": (
        "This comment ignores nothing: `ignore-file` belongs on a line of its own above the first statement."
    ),
    "remove-suppression": "remove the comment",
    "remove-suppressed-rules": "remove {rules} from the comment",
    "comment-only": "only a comment changes",
    "analysis-crashed": (
        "The analysis of this file crashed, so findings are missing here; please report it: {error}."
    ),
    # What a finding takes for granted, and who uses the code
    "assuming-eager": "assuming eager mode: no prepare call in view says otherwise",
    "used-by-root": "`{root}` uses this block: {path}",
    # cat-mixed-scales
    "cat-mixed-scales": (
        "`{spelling}` joins tensors of different scales: one qconfig for all branches shares no scale, so"
        " the converted operator takes the scale and zero point of its first input ({first}) and saturates"
        " the rest ({others}). Damage begins at a range ratio of about 1.5: measured are 22.4 dB at ratio"
        " 2 and 0.5 dB at 100, against 31.3 and 31.4 dB with `FloatFunctional.cat`."
    ),
    "cat-scale-from": "the scale of {owner} is made here",
    # Fixes of concatenations: titles, and reasons why they are safe or what they change
    "fix-cat-functional": "Concatenate with a FloatFunctional of its own (new keys in prepared checkpoints)",
    "fix-cat-functional-reason": (
        "the float output stays bit-identical, and the concatenation gets one observer for all inputs"
    ),
    "fix-cat-one-stub": "Concatenate the float tensors and quantize once (new keys in prepared checkpoints)",
    "fix-cat-one-stub-reason": (
        "stubs are the identity in the float model, and one observer sees the whole concatenation"
    ),
    "fix-cat-shared-stub": "Quantize every input with the first stub (after calibration only)",
    "fix-cat-shared-stub-reason": (
        "right for post-training quantization only: in training, the moving average of one stub clips the wide input"
    ),
    "fix-cat-tied": "Tie the observers of the inputs after prepare (to be done again after every prepare)",
    "fix-cat-tied-reason": (
        "right for post-training quantization only, and lost at every other prepare: in training, the moving average"
        " of one observer clips the wide input"
    ),
    "fix-cat-through-float": "Dequantize, concatenate, quantize again (costs speed at every run)",
    "fix-cat-through-float-reason": "two conversions and a float copy at every run",
    "fix-doubt-unknown-use": "no root in view uses `{root}`, so its inputs are not known",
    "fix-doubt-unknown-input": "an input may be float in `{root}`, where a quantized concatenation raises",
    "fix-doubt-unseen-base": "a base class of `{model}` is not in view and may have an attribute of this name",
    "fix-doubt-passes": "the list is as long as the loop is in the code in view; a longer one would be cut off",
    "fix-doubt-shared-observer": "one object makes this call for several tensors, which then share one observer",
    "fix-doubt-children": "code in view lists the children of models, and this adds one",
    "fix-doubt-attributes": "code in view makes objects or sets attributes in a way of its own",
    "fix-doubt-later-cat": "a later `{spelling}` mixes scales and would take the new one; it has no certain fix",
    "fix-doubt-fused": "fusing renames the parameters, and code in view handles checkpoints",
    "fix-doubt-registers": "if the value is a module or a parameter, its names in checkpoints change",
    "fix-doubt-checkpoint": "code in view loads a checkpoint after prepare, and its keys change",
    # quantstub-reused
    "quantstub-reused": (
        "`{stub}` quantizes another tensor here, after {first}: its one observer covers the range of"
        " both, so both get one scale. The tensor of smaller range pays: measured are 25.6 dB at a range"
        " ratio of 3, 15.8 dB at 10 and 0.4 dB at 100, against 32.1 dB with a QuantStub of its own."
    ),
    "quantstub-reused-meets-cat": (
        "`{stub}` quantizes another tensor here, after {first}, and both meet in one concatenation: right"
        " after calibration, but in quantization-aware training the moving-average observer settles"
        " between their ranges. Measured at a range ratio of 10: 15.8 dB, against 30.6 dB where the float"
        " tensors are concatenated first and quantized once, which is right for both."
    ),
    "fix-own-stub": "Give this tensor a stub of its own, `{stub}` (new keys in prepared checkpoints)",
    "fix-stub-for-each-pass": "Give every pass of the loop a stub of its own (new keys in prepared checkpoints)",
    "fix-own-stub-and-join": (
        "Give this tensor a stub of its own, `{stub}`, and concatenate with a FloatFunctional (new keys in prepared"
        " checkpoints)"
    ),
    "fix-own-stub-reason": "a stub is the identity in the float model, and every tensor gets an observer of its own",
    "quantstub-first-use": "the first use of `{stub}` is here",
    # quantstub-on-quantized
    "fix-remove-stub": "Remove the call of `{stub}` (new keys in prepared checkpoints)",
    "fix-remove-stub-and-join": (
        "Remove the call of `{stub}` and concatenate with a FloatFunctional (new keys in prepared checkpoints)"
    ),
    "fix-remove-stub-reason": "the tensor is quantized already, and a stub is the identity in the float model",
    "fix-dequantize-first": "Dequantize before the stub (costs speed at every run)",
    "fix-dequantize-first-reason": "the tensor is rounded a second time, and two conversions run every time",
    "quantstub-on-quantized": (
        "`{stub}` is called on a tensor that is already quantized (scale of {owner}). The float model and"
        " its calibration run, but the converted model raises `Could not run 'aten::quantize_per_tensor'"
        " with arguments from the 'QuantizedCPU' backend`."
    ),
    # float-op-on-quantized
    "float-op-on-quantized": (
        "`{spelling}` has no quantized kernel of its own: the converted model raises `{error}`. Use `{instead}`, with a"
        " FloatFunctional for each call: it holds the observer that the result needs."
    ),
    "float-op-twin": (
        "`{spelling}` has no quantized kernel: the converted model raises `{error}`. The module `{module}` has one."
    ),
    "float-op-island": (
        "`{spelling}` has no quantized kernel: the converted model raises `{error}`. Compute it in float, between a"
        " DeQuantStub and a QuantStub."
    ),
    "float-op-result": (
        "`{spelling}` has no quantized kernel: the converted model raises `{error}`. Its result is no quantized tensor"
        " either: put a DeQuantStub before it."
    ),
    "fix-op-functional": "Compute with FloatFunctional (new keys in prepared checkpoints)",
    "fix-op-module": "Use the module that has a quantized kernel (new keys in prepared checkpoints)",
    "fix-op-quantized": "Compute with modules that have quantized kernels (new keys in prepared checkpoints)",
    "fix-op-through-float": "Dequantize, compute in float, quantize again (costs speed at every run)",
    "fix-op-partly-float": "Compute with FloatFunctional, and in float what it has not (costs speed at every run)",
    "fix-op-reason": "the float output stays bit-identical, and the result gets an observer of its own",
    "fix-op-behind": "Dequantize before the operator",
    "fix-op-behind-reason": "stubs are the identity in the float model, and nothing but the operator moves out",
    "fix-through-float-reason": "two conversions and a float copy at every run",
    "fix-doubt-number": "`{text}` is taken for a number, but its value is not known",
    "fix-doubt-again": "an operand has left the quantized region and is rounded a second time",
    "fix-doubt-rounding": "the float output is rounded differently in the last bit",
    "fix-doubt-two-ways": "the result is computed on two ways and rounded three times",
    # float-quantized-mix
    "float-quantized-mix": (
        "`{spelling}` gets quantized and float tensors: the converted model raises `{error}`. Give the float tensor a"
        " QuantStub of its own."
    ),
    "float-quantized-behind": (
        "`{spelling}` gets a quantized tensor and one that a DeQuantStub has brought out: the converted model raises"
        " `{error}`. Keep both on one side."
    ),
    "float-quantized-number": (
        "`{spelling}` takes no number: the converted model raises `{error}`. Use the method for numbers, `add_scalar`"
        " or `mul_scalar`."
    ),
    "quantized-here": "the quantized tensor comes from here",
    "fix-mix-stub": "Quantize the float tensor with a stub of its own (new keys in prepared checkpoints)",
    "fix-mix-out": "Dequantize the quantized operand, too",
    "fix-mix-out-reason": "the operator and what follows it run in float",
    "fix-mix-number": "Use the method for numbers",
    "fix-mix-reason": "a stub is the identity in the float model, and both tensors are then quantized",
    "fix-mix-number-reason": "the float model computes the same",
    # quantized-slice-assignment
    "quantized-slice-assignment": (
        "`{spelling}` copies the integer codes of one quantized tensor into another of a different scale: from {source}"
        " into {target}. Nothing is raised and the values are wrong; measured is 5.0 that becomes -0.28."
    ),
    "fix-slices-cat": "Concatenate the parts with FloatFunctional.cat",
    "fix-slices-cat-reason": "which parts are kept, and along which axis, is yours to check",
    # missing-qconfig
    "missing-qconfig": (
        "`{call}` gets {model} without a qconfig: no module in it has one, so no observer is inserted, convert"
        " swaps nothing and the model stays in float. The only sign is the warning `None of the submodule got"
        " qconfig applied`."
    ),
    # qconfig-after-prepare
    "qconfig-after-prepare": (
        "This qconfig of {model} comes after prepare, which is the one that reads it: it has no effect, and the"
        " observers are inserted, or not, as the model was before."
    ),
    "qconfig-prepared-here": "the model is prepared here",
    # result-ignored
    "result-ignored": (
        "`{call}` works on a copy and gives it back, but nobody takes it: {model} stays as it is, without a"
        " warning. Write `inplace=True`, or use the result."
    ),
    "result-ignored-traced": (
        "`{call}` gives a new model back, but nobody takes it: {model} stays a float model, without a warning."
    ),
    "result-kept-local": (
        "`{call}` works on a copy, and this binds it to a name of the function only: whoever calls the function"
        " keeps the old {model}. Return it, or write `inplace=True`."
    ),
    "result-kept-local-traced": (
        "`{call}` gives a new model back, and this binds it to a name of the function only: whoever calls the"
        " function keeps the old {model}. Return it."
    ),
    # ineffective-qconfig-attribute
    "ineffective-qconfig-attribute": (
        "Nothing reads `{name}` from {on}: current versions of torch refuse it on a QConfig, elsewhere it is"
        " ignored, and each branch keeps an observer and a scale of its own."
    ),
    # qconfig-called
    "qconfig-called": (
        "`{spelling}` is a QConfig object, not a function: this raises `'QConfig' object is not callable`. It"
        " needs no `()`; only the `get_default_...` functions do."
    ),
    # tensor-qconfig
    "tensor-qconfig": (
        "{target} is a tensor: prepare looks for a qconfig on modules only, so this one is never read."
    ),
    "qconfig-in-forward": (
        "A qconfig that is set inside forward comes after prepare, which is the one that reads it: it has no"
        " effect."
    ),
    # missing-quantstub
    "missing-quantstub": (
        "`{layer}` is quantized by convert, but gets a float tensor: no QuantStub comes before it. The converted"
        " model raises `{error}`."
    ),
    "fix-quantize": "Quantize it with the QuantStub {stub} (new keys in prepared checkpoints)",
    "fix-quantize-reason": "a QuantStub is the identity in the float model",
    "fix-quantize-several-reason": "several tensors get a stub each, and with it a scale",
    "fix-wrapper": "Or wrap the whole model before it is prepared",
    "fix-wrapper-reason": "a QuantWrapper adds a level to the names of parameters",
    # op-after-dequant
    "op-after-dequant": (
        "`{layer}` runs behind a DeQuantStub, on a float tensor, but the qconfig of the model reaches it: convert"
        " swaps it, and the converted model raises `{error}`. Leave it in float with `qconfig = None`, or dequantize"
        " behind it."
    ),
    "fix-qconfig-none": "Leave `{layer}` in float: `qconfig = None`",
    "fix-qconfig-none-reason": "the layer only runs on float tensors, and the float model does not read a qconfig",
    # stub-result-unused
    "stub-result-unused": (
        "Nobody reads what `{stub}` gives back: a QuantStub changes nothing in place, so what follows gets the float"
        " tensor and the converted model raises `{error}`."
    ),
    "stub-result-unused-needed": "the float tensor raises here",
    "fix-bind-stub": "Bind the result to `{name}`",
    "fix-bind-float-reason": "`{name}` is also read where a float tensor may be needed",
    # quantstub-not-registered
    "quantstub-not-registered": (
        "`{name}` keeps stubs in a plain {container}, where the model does not know them: prepare and convert pass"
        " them by, and they never quantize. Use a `nn.ModuleList` or `nn.ModuleDict`."
    ),
    "quantstub-not-registered-forward": (
        "This stub is built while forward runs, so prepare and convert never see it: it stays the identity. Build it"
        " in `__init__`."
    ),
    "quantstub-not-registered-shared": (
        "This stub belongs to the class, not to its objects, so no model knows it: prepare and convert pass it by, and"
        " it never quantizes. Build it in `__init__`."
    ),
    "quantstub-not-registered-class": (
        "`{name}` is the class of a stub, not a stub: the call takes the tensor for a qconfig and raises, in the"
        " float model already. Write the parentheses."
    ),
    "fix-module-container": "Keep them in a `nn.{kind}` (new keys in prepared checkpoints)",
    "fix-build-stub": "Build the stub: add the parentheses",
    "fix-move-stub": "Build the stub in `__init__` (new keys in prepared checkpoints)",
    "fix-register-reason": "a stub is the identity in the float model, and has no parameters",
    # quantstub-non-float
    "quantstub-non-float": (
        "`{stub}` gets what is no float tensor ({kind}): the float model takes it, but the observer that prepare adds"
        " raises in calibration."
    ),
    "fix-integer-reason": "whether what follows takes the tensor as it is, is not checked",
    "fix-stub-for-each-member": "Give each member a stub of its own (new keys in prepared checkpoints)",
    "fix-members-reason": "whether every member is a tensor is not checked",
    # dequant-on-collection
    "dequant-on-collection": (
        "`{stub}` gets a {kind}: the float model takes it, but after convert a DeQuantStub takes tensors only and"
        " raises `'{kind}' object has no attribute 'dequantize'`."
    ),
    "fix-dequantize-each": "Dequantize each member",
    # missing-dequantstub
    "missing-dequantstub": (
        "`{model}` returns a quantized tensor: convert says nothing, but softmax, argmax, a loss or `numpy()` on the"
        " result raise. A DeQuantStub around it gives floats back."
    ),
    "missing-dequantstub-loss": (
        "`{call}` gets a quantized tensor: the converted model raises `{error}`. A DeQuantStub has to come before it."
    ),
    "missing-dequantstub-met": (
        "`{model}` returns a quantized tensor, and `{call}` refuses the result of the converted model: `{error}`."
        " A DeQuantStub around it gives floats back."
    ),
    "missing-dequantstub-made": "it is quantized here",
    "missing-dequantstub-meets": "the result of the converted model raises here",
    "fix-dequantize": "Dequantize it with a DeQuantStub (new keys in prepared checkpoints)",
    "fix-dequantize-reason": "a DeQuantStub is the identity in the float model",
    "fix-dequantize-list-reason": "the list is built anew around its members",
    # dequant-cat-requant
    "dequant-cat-requant": (
        "`{spelling}` joins tensors in float that were quantized and are quantized again: right, but every branch"
        " makes the way out and back at each run. `FloatFunctional.cat` joins them in one scale without it."
    ),
    # shared-observer-averages
    "shared-observer-averages": (
        "All inputs pass {observer} before they are joined: in quantization-aware training it keeps a moving average"
        " of their ranges, settles between them and clips the wide one. Measured at a range ratio of 10: 20.2 dB,"
        " against 33.8 dB where the float tensors are joined first and quantized once."
    ),
    "averages-call": "`{stub}` is called here",
    "fix-averages-reason": (
        "the float output stays the same, but the model has to be trained with the new observers, and prepared"
        " checkpoints get other keys"
    ),
    # module-reused
    "module-reused": (
        "`{module}` is called on another tensor here, but it has one observer: after convert all its results get one"
        " scale, made for the widest of them. Measured at a range ratio of 10: 16.5 dB for the narrow one, against"
        " 30.6 dB with a module each."
    ),
    "module-reused-weights": (
        "`{module}` is called on another tensor here, and has one observer for all its results: after convert they"
        " get one scale, made for the widest of them. If the weights need not be shared, use a module each."
    ),
    "module-first-use": "the first use of `{module}` is here",
    "fix-own-module": "Give this call a module of its own, `{module}`",
    "fix-module-for-each-pass": "Give each pass of the loop a module of its own, in a ModuleList",
    "fix-own-module-reason": (
        "the float output stays the same, but the model has one module more, and prepared checkpoints get new keys"
    ),
    # missing-fuse
    "missing-fuse": (
        "The model is prepared, but nothing fuses {groups}: each step rounds on its own. Measured for conv, bn and"
        " relu: 28.0 dB, against 32.9 dB fused. Call `fuse_modules` (for training `fuse_modules_qat`) before prepare."
    ),
    "missing-fuse-raises": (
        "The model is prepared, but nothing fuses {groups}: there is no quantized BatchNorm1d, so the converted model"
        " raises `Could not run 'aten::native_batch_norm' with arguments from the 'QuantizedCPU' backend`."
    ),
    "lone-batch-norm": (
        "The model is prepared with `{module}` on quantized tensors: there is no quantized BatchNorm1d, and no layer"
        " before it to fuse it with, so the converted model raises `{error}`. Run it in float, behind a layer that it"
        " is fused with, or as a BatchNorm2d."
    ),
    "norm-called-here": "the BatchNorm1d is called here",
    "fix-fuse": "Fuse the modules before prepare",
    "fix-fuse-reason": "names in checkpoints change, and folding a BatchNorm changes the float output by rounding",
    # fuse-args
    "fuse-args": (
        "The model has no `{name}`, so `{call}` raises an AttributeError. It has {names} there."
    ),
    "fuse-args-name": (
        "`{call}` takes a list of names, or a list of such lists; it reads a single name letter by letter and raises"
        " an AttributeError."
    ),
    "fuse-args-mixed": (
        "`{call}` takes a list of names, or a list of such lists, not both in one: it reads the name beside the lists"
        " letter by letter and raises an AttributeError."
    ),
    "fuse-args-deep": (
        "The list is nested one level too deep: `{call}` takes a list of names, or a list of such lists, and raises an"
        " AttributeError."
    ),
    "fuse-args-modules": (
        "`{call}` takes the names of modules, not the modules, and raises an AttributeError."
    ),
    "fuse-args-flat": (
        "A flat list is one sequence, and there is no fuser for all of these: `{call}` raises `did not find fuser"
        " method for`. Put each sequence in a list of its own."
    ),
    "fix-fuse-name": "Write {names}",
    "fix-fuse-name-reason": "the call raises, and the model has no other name that is near",
    # fuse-unsupported-order
    "fuse-unsupported-order": (
        "There is no fuser for {names} ({classes}): `{call}` raises `did not find fuser method for`. Fusers exist for"
        " conv-bn, conv-bn-relu, conv-relu, linear-relu, linear-bn and bn-relu, in this order."
    ),
    "fix-fuse-beginning": "Fuse {names} only",
    "fix-fuse-beginning-reason": "the other modules stay as they are; whether that is what is meant is for you to say",
    # fuse-changes-float
    "fuse-changes-float": (
        "Fusing {names} makes `{culprit}` an Identity, but forward calls it elsewhere too: the float model computes"
        " something else, without a warning. Give each call a module of its own."
    ),
    "fuse-changes-float-consumer": (
        "The output of `{culprit}` has another use than the next module of {names}; once they are fused it is that of"
        " the whole sequence, and the float model computes something else, without a warning."
    ),
    "fuse-changes-float-apart": (
        "In forward `{culprit}` does not follow the module before it in {names}: once they are fused, what stands"
        " between them works on another tensor, and the float model computes something else, without a warning."
    ),
    "fuse-changes-float-here": "it shows here",
    # module-alias
    "module-alias": (
        "`{second}` is the module that `{first}` is: convert swaps the first name only, and this one keeps the float"
        " module, which raises on a quantized tensor: `{error}`."
    ),
    "module-alias-functional": (
        "`{second}` is the FloatFunctional that `{first}` is: convert swaps the first name only, and this one keeps"
        " the float one, which raises on quantized tensors."
    ),
    "module-alias-quant": (
        "`{second}` is the QuantStub that `{first}` is: convert swaps the first name only, so behind this one the"
        " tensor stays float and the next quantized layer raises."
    ),
    "module-alias-dequant": (
        "`{second}` is the DeQuantStub that `{first}` is: convert swaps the first name only, so this one hands the"
        " quantized tensor on."
    ),
    "module-alias-called": "`{second}` is called here",
    "fix-alias-copy": "Give the second name a copy of the module",
    "fix-alias-copy-reason": "the two modules start equal, but training no longer keeps their weights equal",
    "fix-add-qconfig": "Give `{model}` the default qconfig of {backend} before it is prepared",
    "fix-add-named-qconfig": "Set `{model}.qconfig` to `{name}` before prepare",
    "fix-add-qconfig-reason": "the backend and its observers are a choice, and the model becomes a quantized one",
    "fix-move-qconfig": "Assign the qconfig before prepare",
    "fix-move-qconfig-reason": "prepare reads it there; the model is then quantized, as the code asks",
    "fix-inplace": "Work in place",
    "fix-inplace-reason": "the model that the code goes on with is then the one that changes",
    "fix-rebind": "Bind the result to `{model}`",
    "fix-rebind-reason": "the code goes on with the model that the call gives back",
    "fix-no-call": "Use the QConfig as it is",
    "fix-no-call-reason": "the call raises",
    "fix-delete": "Delete the statement",
    "fix-delete-stray-reason": "nothing reads the attribute",
    "fix-delete-unseen-reason": "the statement has no effect; the qconfig belongs on a module, before prepare",
    "fix-join-quantized-reason": "stubs stay unused, and the scale comes from another observer",
    # functional-reused
    "functional-reused": (
        "`{functional}` is used for another operation here, after {first}: its one observer covers the results of both,"
        " so both get one scale. The result of smaller range pays: measured are 26.4 dB at a range ratio of 3, 16.3 dB"
        " at 10 and 0.2 dB at 100, against 32.7 dB with a FloatFunctional of its own."
    ),
    "functional-first-use": "the first use of `{functional}` is here",
    "fix-own-functional": (
        "Give this operation a FloatFunctional of its own, `{functional}` (new keys in prepared checkpoints)"
    ),
    "fix-functional-for-each-pass": (
        "Give every pass of the loop a FloatFunctional of its own (new keys in prepared checkpoints)"
    ),
    "fix-own-functional-reason": (
        "a FloatFunctional calls the torch function in the float model, and every result gets an observer of its own"
    ),
    # functional-created-in-forward
    "functional-created-in-forward": (
        "A FloatFunctional that forward builds is no submodule: convert does not find it, it stays a torch function,"
        " and the converted model raises `{error}`. Build it in `__init__`."
    ),
    "functional-created-in-forward-cat": (
        "A FloatFunctional that forward builds is no submodule: prepare gives it no observer, and its `cat` silently is"
        " `torch.cat`, which takes the scale of the first input and saturates the rest (at a range ratio of 3, 16.8"
        " instead of 29.3 dB were measured). Build it in `__init__`."
    ),
    "functional-used-here": "it is used here",
    "fix-register-functional": "Build it in `__init__`, as `{functional}` (new keys in prepared checkpoints)",
    "fix-register-functional-reason": (
        "a FloatFunctional calls the torch function in the float model; as a submodule it gets an observer"
    ),
    # functional-not-registered
    "functional-not-registered": (
        "`{attribute}` keeps its FloatFunctionals in a plain {container}: they are no submodules, convert does not find"
        " them, they stay torch functions, and the converted model raises `{error}`. Use an `nn.ModuleList` or an"
        " `nn.ModuleDict`."
    ),
    "functional-not-registered-cat": (
        "`{attribute}` keeps its FloatFunctionals in a plain {container}: they are no submodules, prepare gives them no"
        " observer, and their `cat` silently is `torch.cat`, which takes the scale of the first input and saturates the"
        " rest (at a range ratio of 3, 16.8 instead of 29.3 dB were measured). Use an `nn.ModuleList` or an"
        " `nn.ModuleDict`."
    ),
    "fix-register-container": "Make it an `nn.{container}` (new keys in prepared checkpoints)",
    # unsupported-module, functional-weight-op
    "unsupported-module": (
        "`{module}` gets a quantized tensor, but {kind} has no quantized kernel: the float model and calibration run,"
        " the converted model raises `{error}`. Run it in float between a DeQuantStub and a QuantStub, or take another"
        " module."
    ),
    "refused-module": (
        "A qconfig reaches `{module}`, but eager mode cannot quantize {kind}: it ends in `{error}`. Give it"
        " `qconfig = None` and run it in float behind a DeQuantStub."
    ),
    "prelu-raises": (
        "`{module}` gets a quantized tensor: where weights are observed per channel, as by default on x86, convert"
        " refuses {kind} with `Dimension out of range (expected to be in range of [-1, 0], but got 1)`, and with one"
        " scale the quantized kernel is wrong (6.3 dB). Give it `qconfig = None` and run it in float."
    ),
    "prelu-wrong": (
        "`{module}` gets a quantized tensor: the quantized kernel of {kind} shrinks positive values too, to twice the"
        " slope where that is below 0.5. At the default of 0.25 6.3 dB are left, against 32 dB in float between a"
        " DeQuantStub and a QuantStub."
    ),
    "module-made-here": "the module is made here",
    "fix-island": "Run it in float between a DeQuantStub and a QuantStub (costs speed at every run)",
    "fix-island-end": "Dequantize first: nothing quantized follows",
    "fix-island-container": (
        "Put a DeQuantStub before and a QuantStub behind the module (costs speed at every run)"
    ),
    "fix-island-reason": "the float model stays the same, but the operation leaves int8: speed and result change",
    "functional-weight-op": (
        "`{spelling}` gets a quantized tensor and float weights: convert swaps modules, not functions, so the converted"
        " model raises `{error}`. Make it a layer, or run it in float between a DeQuantStub and a QuantStub."
    ),
    # subclass-not-swapped
    "subclass-not-swapped": (
        "`{module}` gets a quantized tensor, but convert goes by the exact class and leaves `{kind}`, a subclass of"
        " {base}, in float: the converted model raises `{error}`. Hold the {base} in an attribute instead."
    ),
    "subclass-raises-here": "the call that raises",
    # weight-attribute-in-forward
    "weight-attribute-in-forward": (
        "`{module}.{name}` is a tensor of the float {kind}, but a method of the quantized one: the converted model"
        " raises `'function' object has no attribute ...`, or a TypeError where it is used as a tensor. Keep what"
        " forward needs of it in a buffer."
    ),
    # conv-padding-unsupported
    "conv-padding-mode": (
        "A qconfig reaches `{module}`, but no quantized convolution pads in the mode '{mode}': convert raises"
        " `{error}`. Pad by hand with `F.pad`, or keep the layer in float."
    ),
    "conv-padding-unsupported": (
        "A qconfig reaches `{module}`, but a quantized convolution takes its padding as numbers, not as '{word}':"
        " convert raises `quantized::conv{dimensions}d_prepack() Expected a value of type 'List[int]' for argument"
        " 'padding'`."
    ),
    "fix-padding": "Write the padding as a number: {padding}",
    "fix-padding-odd": "right for odd kernel sizes, which all are that are in view",
    "fix-padding-reason": "the float model pads the same rows",
    # per-channel-convtranspose, embedding-qconfig
    "per-channel-convtranspose": (
        "This qconfig observes weights per channel, and it reaches `{module}`, a {kind}, for which that does not work:"
        " {stage} raises `{error}`. Give the layer a qconfig with one weight scale."
    ),
    "fix-per-tensor": "Give the layer a qconfig with one weight scale",
    "fix-per-tensor-reason": "only transposed convolutions get it, and with the other one they cannot be quantized",
    "fix-per-tensor-engine": (
        "with torch 2.13 the engine `x86` (oneDNN) gives noise for transposed convolutions whose numbers of channels"
        " differ; `fbgemm` and `qnnpack` compute them right"
    ),
    "fix-mode-reason": "training and calibration take different ones, and which of them is used is not known here",
    "embedding-qconfig": (
        "This qconfig reaches `{module}`, and an embedding takes only one that observes weights in float qparams:"
        " convert raises `{error}`"
    ),
    "fix-embedding": "Give the embedding a qconfig for embeddings",
    "fix-embedding-reason": "only embeddings get it, and with the other one they cannot be quantized",
    # functional-called-directly
    "functional-called-directly": (
        "A {kind} has no `forward` to call, only a method for each operation: already the float model raises. Name the"
        " operation, as in `.add(x, y)` or `.cat([x, y], dim)`."
    ),
    "fix-name-operation": "Name the operation, if it is `{operation}`",
    "fix-name-operation-reason": "which operation is meant is not in the code",
    # functional-bad-call
    "functional-bad-call": (
        "Already the float model raises `{error}`: the methods of a {kind} take `x` and `y`, `cat` takes a list `x` and"
        " `dim`, and nothing else."
    ),
    "functional-bad-call-method": (
        "A {kind} has no method `{method}`: already the float model raises `{error}`. It has `add`, `mul`, `matmul`,"
        " `add_relu`, `cat`, `add_scalar` and `mul_scalar`."
    ),
    "fix-rename-keyword": "Rename `{old}` to `{new}`",
    "fix-list-of-tensors": "Put the tensors in a list",
    "fix-other-method": "Say `{method}` by the methods that there are",
    "fix-bad-call-reason": "the call raises as it is, and the new one gives what it means, to the bit",
    "fix-doubt-reciprocal": "the reciprocal is rounded, so that a result may differ in its last bit",
    # functional-on-float
    "functional-on-float": (
        "`{functional}` gets float tensors here, behind a DeQuantStub. The float model and its calibration run, but"
        " convert swaps it for the quantized one, and the converted model raises `{error}`."
    ),
    "functional-made-here": "it is built here",
    "fix-torch-function": "Use `{function}`",
    "fix-torch-function-reason": (
        "it is what the FloatFunctional calls in the float model, and all tensors are float here"
    ),
    # qfunctional-before-convert
    "qfunctional-before-convert": (
        "A QFunctional calls quantized operators, and the model is float until convert: its `{method}` already raises"
        " there. Build a FloatFunctional; convert makes a QFunctional of it."
    ),
    "fix-float-functional": "Build a FloatFunctional",
    "fix-float-functional-reason": "it has the same methods, and convert makes a QFunctional of it",
    # relu-after-add
    "relu-after-add": (
        "This ReLU is all that becomes of the sum of `{functional}`, whose observer spends half of its range on what is"
        " thrown away. `add_relu` does both in one operation: 33.3 instead of 31.5 dB were measured."
    ),
    "sum-made-here": "the sum is made here",
    "fix-add-relu": "Use `add_relu`",
    "fix-add-relu-reason": "in the float model it is the sum and the ReLU",
    "fix-doubt-relu-elsewhere": "`{relu}` has other uses, and a list of modules to fuse may name it",
    # nested-cat
    "nested-cat": (
        "A part of this concatenation is itself one along the same dimension, and nothing else uses it: its data is"
        " copied twice, and with a FloatFunctional rounded twice (29.8 instead of 30.2 dB were measured). One"
        " concatenation of all tensors gives the same."
    ),
    "inner-cat": "the inner concatenation is here",
    "fix-flatten-cat": "Make it one concatenation (new keys in prepared checkpoints)",
    "fix-flatten-cat-reason": "the float result is the same, tensor by tensor",
    # mean-in-int8
    "mean-in-int8": (
        "`{spelling}` rounds the average to the scale of its input, although it is dequantized next: measured are 27.5"
        " dB here and 48.1 dB behind the DeQuantStub."
    ),
    "mean-in-int8-head": (
        "`{spelling}` rounds the average to the scale of its input before the layers of the head: measured are 31.4 dB,"
        " and 41.6 dB if it is taken in float and quantized with a scale of its own."
    ),
    "fix-mean": "Take the average behind the DeQuantStub",
    "fix-mean-reason": "the float model stays the same, but the border of the quantized region moves",
    # deprecated-namespace
    "deprecated-namespace": (
        "`{old}` is the old name of `{new}`: the same object, kept for old code, in a package that gets nothing new."
    ),
    "fix-namespace": "Write the new namespace",
    "fix-namespace-reason": "both names stand for the same object",
    # removed-name, pt2e-import-moved
    "removed-name": "`{package}` has no `{name}`; it is `{home}`. Measured with torch 2.13: `{error}`.",
    "removed-name-lost": "`{package}` has no `{name}` any more. Measured with torch 2.13: `{error}`.",
    "removed-name-star": (
        "A star import of `{package}` raises, because its list of public names has some that it lacks:"
        " `{error}`. Import the names that are used."
    ),
    "pt2e-import-moved": "Since torch 2.11 `{name}` is not in torch; it is `{home}`.",
    "fix-moved-name": "Take the name from where it is",
    "fix-moved-name-reason": "the code raised before",
    "fix-moved-package-reason": "ExecuTorch is one more package to install",
    # fx-mapping-empty
    "fx-mapping-empty": "This mapping has no entries, so `{call}` quantizes nothing of {model} and says nothing.",
    "fx-mapping-absent": (
        "Nothing in {model} is {key}, and the mapping says no more: `{call}` quantizes nothing and says nothing."
    ),
    "fx-mapping-no-name": "{model} has no module {key}: this entry does nothing, and nothing says so.",
    "fx-mapping-used": "the mapping is used here",
    # fx-fused-qconfig-mismatch
    "fx-fused-qconfig-mismatch": (
        "FX fuses {kind} with {other}, which has no such entry: prepare raises `LookupError: During fusion, we need to"
        " specify the same qconfigs for all module types`. Give both one qconfig, or use `set_module_name`."
    ),
    "fx-fused-here": "fused here",
    # exported-model-eval
    "exported-model-eval": (
        "`{shown}` is an exported model, and its `{method}()` raises `NotImplementedError`. Use torchao's"
        " `{function}({shown})`."
    ),
    "fix-exported-mode": "Call `{function}`",
    "fix-exported-mode-reason": "the code raised before",
    "fix-exported-mode-package-reason": "torchao is one more package to install",
    # fx-control-flow
    "fx-control-flow": "FX traces this without a value to decide by: prepare raises `{error}`.",
    "fx-traced-here": "the model is traced here",
    # cat-alias-not-annotated
    "cat-alias-not-annotated": (
        "`{spelling}` is no `torch.cat` for the quantizer: its inputs get scales of their own, and it runs in float"
        " between a dequantize and a quantize."
    ),
    # fx-unquantized-module
    "fx-unquantized-module": (
        "FX has no quantized class for `{module}` ({kind}): it stays in float, and nothing says so."
    ),
    # fx-functional-conv-args
    "fx-functional-conv-args": (
        "`convert_fx` raises on this `{op}`: `quantized::{op}_prepack() {problem}`. It passes the arguments on as they"
        " stand: spell bias, stride, padding, dilation (tuples) and groups."
    ),
    "fix-conv-args": "Spell every argument",
    "fix-conv-args-reason": "these are the defaults",
    # missing-example-inputs
    "missing-example-inputs": (
        "`{call}` needs `{argument}`: `TypeError: {function}() missing 1 required positional argument: '{argument}'`."
    ),
    "fix-example-inputs": "Pass `{argument}`, a tuple with a tensor for each argument of `forward`",
    "fix-example-inputs-reason": "you know the shapes",
    # prepare-mode
    "prepare-mode": (
        "{model} is in training mode while data passes through it after `{call}`: its observers see other ranges than"
        " the deployed model has. Measured: {db} dB. Call `eval()` before."
    ),
    "prepare-mode-run": "data passes through here",
    "prepare-mode-qat": (
        "{model} is in eval mode, and `{call}` refuses it: `AssertionError: prepare_qat only works on models in"
        " training mode`. Call `train()` before."
    ),
    "prepare-mode-qat-fx": "{model} is in eval mode: `{call}` accepts it, but it is made for training mode.",
    "prepare-mode-fx": (
        "{model} has BatchNorm and is in training mode: `{call}` fuses it and raises `AssertionError: Fusion only for"
        " eval!`. Call `eval()` before."
    ),
    "fix-set-mode": "Call `{model}.{mode}()` before",
    "fix-doubt-goes-on": "`{model}` is used after its copy was prepared, and would go on in eval mode.",
    "fix-set-mode-reason": "it is the mode that the call is made for",
    # missing-calibration
    "missing-calibration": (
        "No data has passed through {model} since it was prepared, so `{call}` gives every tensor scale 1 and zero"
        " point 0: 1.5 instead of 37.1 dB were measured, with no more than a warning."
    ),
    "calibration-prepared-here": "prepared here",
    "fix-calibrate": "Let calibration data pass through the model",
    "fix-calibrate-reason": "you know the data",
    # ptq-qconfig-for-qat
    "ptq-qconfig-for-qat": (
        "This qconfig of {model} holds observers and no fake-quantize modules, so it trains in plain float:"
        " `prepare_qat` does not say so. Take the one for training."
    ),
    "qat-prepared-here": "prepared for training here",
    "fix-qat-qconfig": "Take the qconfig for training",
    "fix-qat-qconfig-reason": "it is what `prepare_qat` asks for",
    # fuse-after-prepare
    "fuse-after-prepare": (
        "`{call}` comes after {model} was prepared: the fused module has no observer, stays in float between quantized"
        " ones and raises (`Input type (c10::quint8) and bias type (float) should be the same`). Fuse first."
    ),
    "fuse-after-prepare-bn": (
        "`{call}` comes after {model} was prepared, and no data passes through it afterwards: its observers are those"
        " of the unfused modules. Fuse first."
    ),
    "fuse-after-convert": (
        "`{call}` comes after {model} was converted: quantized modules have no fuser (`AssertionError: did not find"
        " fuser method for`). Fuse first."
    ),
    "fused-behind": "it comes after this call",
    "fix-fuse-first": "Fuse before the model is prepared",
    "fix-fuse-first-reason": "the float model computes the same",
    # prepare-again
    "prepare-again": (
        "`{call}` does nothing here: the first call found no qconfig and stored None on every module of {model}, which"
        " the new one does not reach. 0 modules are quantized. Assign it before the first call."
    ),
    "prepared-bare": "prepared without a qconfig here",
    # convert-without-prepare
    "convert-without-prepare": (
        "{model} was never prepared: without observers `{call}` has nothing to replace, gives the float model back and"
        " says nothing."
    ),
    "convert-without-prepare-fx": (
        "{model} was never prepared, and `{call}` refuses it: `ValueError: input model must be a GraphModule`."
    ),
    # fuse-mode
    "fuse-mode": (
        "`{call}` folds a BatchNorm ({names}) while {model} is in training mode, and raises `AssertionError: Fusion"
        " only for eval!`. {remedy}"
    ),
    "fuse-mode-qat": (
        "`{call}` folds the BatchNorm of {names} into the weights before {model} is trained, so training has none to"
        " adapt. Take `fuse_modules_qat`, which keeps it."
    ),
    "fix-fuse-qat": "Fuse for training",
    "fix-fuse-qat-reason": "a checkpoint has other names then",
    # bad-qconfig-value
    "bad-qconfig-value": "The qconfig of {model} is a text: `{call}` raises `{error}`. It has to be a QConfig.",
    "bad-qconfig-function": (
        "The qconfig of {model} is a function that was not called: `{call}` raises `{error}`. It has to be a QConfig."
    ),
    "bad-qconfig-class": (
        "The qconfig of {model} is the class QConfig itself: `{call}` raises `{error}`. It has to be built."
    ),
    "bad-qconfig-observer": (
        "The qconfig of {model} is an observer: `{call}` raises `{error}`. It has to be a QConfig, of one observer for"
        " activations and one for weights."
    ),
    "bad-qconfig-mapping": (
        "The qconfig of {model} is a QConfigMapping, which only `prepare_fx` reads: `{call}` raises `{error}`. It has"
        " to be a QConfig."
    ),
    "bad-qconfig-dict": (
        "The qconfig of {model} is a dict: `{call}` raises `{error}`. Give each module its own QConfig."
    ),
    "bad-qconfig-package": (
        "The qconfig of {model} is a module of torch, not a QConfig: `{call}` raises `{error}`."
    ),
    "bad-qconfig-fx": (
        "This is no QConfigMapping: `{call}` raises `AssertionError: qconfig_mapping must be a QConfigMapping`."
    ),
    "bad-qconfig-keyword": (
        "`{call}` has no parameter `{name}`: `TypeError: {function}() got an unexpected keyword argument '{name}'`."
    ),
    "bad-qconfig-keyword-former": (
        "`{call}` has no parameter `{name}` since torch 1.13: `TypeError: {function}() got an unexpected keyword"
        " argument '{name}'`. It is called `{successor}` now."
    ),
    "qconfig-read-here": "the call that reads it",
    "fix-qconfig-value": "Spell the qconfig",
    "fix-qconfig-value-reason": "the code raised before",
    # qconfig-observer-instance
    "qconfig-observer-instance": (
        "`{call}` gets an observer that is built already (`{parameters}`) and raises `ValueError: QConfig received"
        " observer instance, please pass observer class instead`: every layer needs one of its own."
    ),
    "fix-observer-class": "Pass what builds the observer",
    "fix-observer-class-reason": "the code raised before",
    # optimizer-before-prepare
    "optimizer-before-prepare": (
        "`{call}` copies {model}, and the optimizer keeps the parameters of the original: it steps and trains nothing."
        " Build it for what `{call}` gives back."
    ),
    "optimizer-built-here": "the optimizer is built here",
    "fix-optimizer-behind": "Build the optimizer after `prepare_qat`",
    "fix-optimizer-behind-reason": "the model stays the same",
    # observers-move-in-eval
    "observers-move-in-eval": (
        "`eval()` does not stop the observers of {model}: the data of this evaluation moves its ranges. Call"
        " `apply(disable_observer)` as well."
    ),
    "observers-run": "data passes through here",
    "fix-observers-off": "Switch the observers off",
    "fix-observers-off-reason": "training that goes on needs them again",
    # wrapped-dataparallel
    "wrapped-dataparallel": (
        "`{call}` gets {model} in its wrapper for several GPUs, and so does convert: the converted model runs on the"
        " CPU only, which the wrapper refuses. Prepare and convert what is inside, and wrap it for training only."
    ),
    "dataparallel-converted-here": "converted here",
    # convert-on-cuda
    "convert-on-cuda": (
        "{model} is on a GPU when `{call}` gets it, and only the CPU has the kernels that pack quantized weights: it"
        " raises (`Could not run 'quantized::conv2d_prepack'`). Move it to the CPU first."
    ),
    "convert-then-cuda": (
        "This model was converted, and only the CPU has kernels for its quantized layers: it raises when it runs on a"
        " GPU."
    ),
    "cuda-moved-here": "moved to the GPU here",
    "cuda-converted-here": "converted here",
    "fix-to-cpu": "Move `{model}` to the CPU first",
    "fix-to-cpu-reason": "what runs afterwards may give it data from the GPU",
    # root-leaf-quantized
    "root-leaf-quantized": (
        "{model} is a single `{kind}`, and convert replaces only what is inside of what it gets: after `{call}` it"
        " stays in float, and nothing says so. Put it into a `QuantWrapper` or a model."
    ),
    "fix-wrap-leaf": "Put a `QuantWrapper` around `{model}`",
    "fix-wrap-leaf-reason": "a checkpoint has other names then",
    # dynamic-unsupported
    "dynamic-unsupported": (
        "`{call}` has no dynamic twin for {classes} and leaves them in float without a word: it replaces Linear, LSTM,"
        " GRU and their cells. Convolutions need static quantization."
    ),
}
