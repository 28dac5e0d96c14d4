from crawler.fingerprint import digest


def test_a_digest_is_sha256_in_hex() -> None:
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest("水库".encode()) != digest("水库".encode("gbk"))
