"""What URLs and storage options mean for requests to S3, and what their refusals say.

Knows the words of s3fs and botocore. Must not send anything.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ParamValidationError

from orcstream.errors import UsageError
from orcstream.io.options import unknown_option

VERSION = "?versionId="
CUSTOMER = "SSECustomer"


def object_of(filesystem: Any, url: str) -> tuple[str, str, str | None]:
    """Bucket, key and version that a URL names; a version counts whatever the options say of versions."""
    bucket, key, _ = filesystem.split_path(url)
    return bucket, key, url.partition(VERSION)[2] or None


def with_customer_key(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`s3_additional_kwargs` for every kind of request, where they hold a key of the customer's (SSE-C).

    botocore encodes such a key for most requests and leaves it alone in the others, and it does not know that
    what is copied has been encrypted by the same key. A key that comes with its MD5 is encoded already.
    """
    made = dict(parameters)
    key = made.get(f"{CUSTOMER}Key")
    if key is None:
        return made
    if not isinstance(key, bytes | str):
        raise UsageError(
            f"s3_additional_kwargs: {CUSTOMER}Key must be bytes or text, not {type(key).__name__}"
        )
    if f"{CUSTOMER}KeyMD5" not in made:
        data = key.encode() if isinstance(key, str) else key
        made[f"{CUSTOMER}Key"] = base64.b64encode(data).decode()
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        made[f"{CUSTOMER}KeyMD5"] = base64.b64encode(digest).decode()
    for name in ("Algorithm", "Key", "KeyMD5"):
        if f"{CUSTOMER}{name}" in made:
            made[f"CopySource{CUSTOMER}{name}"] = made[f"{CUSTOMER}{name}"]
    return made


def options_refused(error: Exception, url: str) -> UsageError:
    """What s3fs or botocore make of storage options that they do not know, or that cannot be."""
    # s3fs hands on what it does not know, and the names of who refuses it say nothing.
    return UsageError(
        f"no S3 client: {unknown_option(error) or error}; storage_options are those of s3fs: key, secret, "
        "token, profile, anon, endpoint_url, client_kwargs, config_kwargs, …",
        url=url,
    )


def parameter_refused(error: ParamValidationError, url: str) -> UsageError:
    """What botocore makes of `s3_additional_kwargs`, without their values: there are secrets among them.

    And of the bucket.
    """
    if "Invalid bucket name" in str(error):
        return UsageError(
            "this is no name of a bucket; an S3 URL is s3://bucket/key, and credentials are given as "
            "storage_options key and secret",
            url=url,
        )
    names = ", ".join(sorted(set(re.findall(r"parameter (?:in input: )?\"?([\w.]+)", str(error)))))
    return UsageError(f"s3_additional_kwargs are not what S3 takes: {names or 'see its API'}", url=url)
