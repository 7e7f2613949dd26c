from metasched import optional


def test_a_version_is_read_from_disk_once_because_every_run_asks_for_it(monkeypatch):
    found = optional.version_of("numpy")
    monkeypatch.setattr(optional, "version", lambda package: "read again")
    assert optional.version_of("numpy") == found


def test_a_package_that_is_not_there_has_no_version():
    assert optional.version_of("no-package-of-this-name") == "not installed"
