//! From evidence to causes: attribution, steps and verdicts.
