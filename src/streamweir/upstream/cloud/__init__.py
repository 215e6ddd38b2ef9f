"""Credentials of clouds: each module makes an `upstream.authorized.Authorizer` from what an operator has configured."""
