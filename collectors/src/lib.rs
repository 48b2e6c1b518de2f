//! Reads the machine and the training job into rows.
