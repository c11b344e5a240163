//! One file per family of block formats: layout, decode, unpack, encode.
