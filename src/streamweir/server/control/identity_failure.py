"""Why a sign-in at the identity provider has failed, in sentences for the sign-in page.

The browser comes back with the name of the reason alone; nothing that the provider or an address says is shown.
"""

from enum import StrEnum


class SignInFailure(StrEnum):
    EXPIRED = "expired"
    DENIED = "denied"
    PROVIDER = "provider"
    AWAY = "away"
    UNTRUSTED = "untrusted"
    UNVERIFIED = "unverified"
    DOMAIN = "domain"
    UNINVITED = "uninvited"
    NO_ROLE = "no_role"
    DISABLED = "disabled"
    OTHER_ACCOUNT = "other_account"
    NAME_TAKEN = "name_taken"
    WORKSPACE = "workspace"
    BUSY = "busy"


SENTENCES = {
    SignInFailure.EXPIRED: "This sign-in was not begun in this browser, has been used, or took more than ten minutes. "
    "Begin again.",
    SignInFailure.DENIED: "The identity provider says that you have cancelled, or that you may not come in.",
    SignInFailure.PROVIDER: "The identity provider has refused the sign-in. The gateway's log has the reason.",
    SignInFailure.AWAY: "The identity provider does not answer at the moment. Try again later.",
    SignInFailure.UNTRUSTED: "The answer of the identity provider is not valid. The gateway's log has the reason.",
    SignInFailure.UNVERIFIED: "The identity provider has not verified your e-mail address. Have it verified there.",
    SignInFailure.DOMAIN: "Accounts with your e-mail address may not come in here.",
    SignInFailure.UNINVITED: "Nobody has invited your account. Ask an owner to invite you with the e-mail address that "
    "the identity provider has verified.",
    SignInFailure.NO_ROLE: "Your groups at the identity provider have no role here. Ask an owner.",
    SignInFailure.DISABLED: "You may not log in here. Ask an owner.",
    SignInFailure.OTHER_ACCOUNT: "Your e-mail address belongs to a person who has another account at the identity "
    "provider. Ask an owner to reset that person.",
    SignInFailure.NAME_TAKEN: "Your name is that of another person here. Ask an owner to invite you with your e-mail "
    "address.",
    SignInFailure.WORKSPACE: "The workspace for your groups does not exist. Ask an owner to correct the configuration.",
    SignInFailure.BUSY: "The gateway cannot sign you in at the moment. Try again later.",
}
