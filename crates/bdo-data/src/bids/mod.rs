//! BIDS.
