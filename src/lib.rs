//! The wiring of Feedline.
