"""People: accounts with roles, their sessions, and the keys that are theirs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("login", sa.String, nullable=False, unique=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("workspace_id", sa.String, index=True),
        sa.Column("password", sa.Text),
        sa.Column("subject", sa.String, unique=True),
        sa.Column("invitation", sa.LargeBinary, unique=True),
        sa.Column("invited_until_ms", sa.BigInteger),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger),
        sa.Column("disabled_ms", sa.BigInteger),
        sa.Column("removed_ms", sa.BigInteger),
    )
    op.create_table(
        "login_attempts",
        sa.Column("id", _Sequence, primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
        sa.Column("account", sa.LargeBinary, nullable=False, index=True),
        sa.Column("address", sa.String, nullable=False, index=True),
    )
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("nonce", sa.String, nullable=False),
        sa.Column("verifier", sa.String, nullable=False),
        sa.Column("issuer", sa.String, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
    )
    for name in ("person_id", "address", "browser"):
        op.add_column("sessions", sa.Column(name, sa.String))
    op.create_index("ix_sessions_person_id", "sessions", ["person_id"])
    op.add_column("keys", sa.Column("person_id", sa.String))
    op.create_index("ix_keys_person_id", "keys", ["person_id"])
