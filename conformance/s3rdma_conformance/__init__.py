"""A conformance suite for S3 over RDMA."""
__version__ = "0.1.0"
