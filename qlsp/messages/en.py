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
    "quantstub-first-use": "the first use of `{stub}` is here",
    # quantstub-on-quantized
    "quantstub-on-quantized": (
        "`{stub}` is called on a tensor that is already quantized (scale of {owner}). The float model and"
        " its calibration run, but the converted model raises `Could not run 'aten::quantize_per_tensor'"
        " with arguments from the 'QuantizedCPU' backend`."
    ),
}
