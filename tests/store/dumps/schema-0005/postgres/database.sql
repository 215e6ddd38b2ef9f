SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.accounts (
    id character varying NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying,
    granted bigint NOT NULL,
    spent bigint NOT NULL,
    held bigint NOT NULL,
    until_ms bigint
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.alert_conditions (
    subject character varying NOT NULL,
    level integer NOT NULL,
    basis bigint NOT NULL,
    until_ms bigint
);
CREATE TABLE public.alert_deliveries (
    webhook character varying NOT NULL,
    alert_seq bigint NOT NULL,
    attempts integer NOT NULL,
    next_ms bigint NOT NULL,
    delivered_ms bigint,
    given_up_ms bigint,
    error text
);
CREATE TABLE public.alerts (
    seq bigint NOT NULL,
    id character varying NOT NULL,
    at_ms bigint NOT NULL,
    kind character varying NOT NULL,
    workspace_id character varying,
    body text NOT NULL
);
CREATE SEQUENCE public.alerts_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.alerts_seq_seq OWNED BY public.alerts.seq;
CREATE TABLE public.attribution_days (
    day bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    kind character varying NOT NULL,
    value character varying NOT NULL,
    digest character varying,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced bigint NOT NULL,
    price bigint NOT NULL,
    uncosted bigint NOT NULL
);
CREATE TABLE public.audit (
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    actor character varying NOT NULL,
    workspace_id character varying,
    action character varying NOT NULL,
    object character varying NOT NULL,
    detail text NOT NULL,
    previous bytea NOT NULL,
    digest bytea NOT NULL
);
CREATE SEQUENCE public.audit_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_seq_seq OWNED BY public.audit.seq;
CREATE TABLE public.contents (
    request_id character varying NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    at_ms bigint NOT NULL,
    prompt bytea NOT NULL,
    answer bytea NOT NULL,
    upstream_frames bytea NOT NULL,
    caller_frames bytea NOT NULL,
    is_cut boolean NOT NULL
);
CREATE TABLE public.counters (
    name character varying NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.idempotency (
    key_id character varying NOT NULL,
    digest bytea NOT NULL,
    body_digest bytea NOT NULL,
    request_id character varying NOT NULL,
    is_over boolean NOT NULL,
    until_ms bigint NOT NULL
);
CREATE TABLE public.instances (
    id character varying NOT NULL,
    node character varying NOT NULL,
    started_ms bigint NOT NULL,
    seen_ms bigint NOT NULL,
    stopped_ms bigint
);
CREATE TABLE public.keys (
    id character varying NOT NULL,
    workspace_id character varying NOT NULL,
    name character varying NOT NULL,
    origin character varying NOT NULL,
    digest bytea NOT NULL,
    last4 character varying NOT NULL,
    scopes text NOT NULL,
    models text,
    dialect character varying,
    rpm bigint,
    tpm bigint,
    max_streams bigint,
    budget_nano bigint,
    budget_period character varying,
    log_content boolean NOT NULL,
    expires_ms bigint,
    created_ms bigint NOT NULL,
    revoked_ms bigint,
    old_digest bytea,
    old_until_ms bigint,
    version bigint NOT NULL,
    show_routing boolean DEFAULT false NOT NULL,
    price_group character varying,
    show_cost boolean DEFAULT false NOT NULL
);
CREATE TABLE public.leases (
    name character varying NOT NULL,
    holder character varying NOT NULL,
    until_ms bigint NOT NULL
);
CREATE TABLE public.ledger (
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    kind character varying NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying,
    request_id character varying,
    amount bigint NOT NULL,
    cost bigint,
    note text,
    price bigint
);
CREATE SEQUENCE public.ledger_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.ledger_seq_seq OWNED BY public.ledger.seq;
CREATE TABLE public.limit_rules (
    workspace_id character varying NOT NULL,
    name character varying NOT NULL,
    per character varying NOT NULL,
    key_id character varying NOT NULL
);
CREATE TABLE public.open_requests (
    request_id character varying NOT NULL,
    instance character varying NOT NULL,
    at_ms bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    key_name character varying NOT NULL,
    dialect character varying NOT NULL,
    model character varying NOT NULL,
    target character varying,
    stream boolean NOT NULL,
    held bigint NOT NULL,
    account character varying,
    prices text NOT NULL,
    prompt_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    progress_ms bigint,
    cancel_ms bigint,
    idempotency bytea,
    first_ms bigint,
    last_ms bigint,
    end_user character varying,
    session character varying,
    tags text,
    accounts text
);
CREATE TABLE public.payment_events (
    id character varying NOT NULL,
    at_ms bigint NOT NULL,
    kind character varying NOT NULL,
    payment_id character varying,
    result character varying NOT NULL
);
CREATE TABLE public.payments (
    id character varying NOT NULL,
    workspace_id character varying NOT NULL,
    amount bigint NOT NULL,
    status character varying NOT NULL,
    session_id character varying,
    created_ms bigint NOT NULL,
    paid_ms bigint
);
CREATE TABLE public.provider_signs (
    provider character varying NOT NULL,
    instance character varying NOT NULL,
    failed_ms bigint,
    answered_ms bigint
);
CREATE TABLE public.requests (
    seq bigint NOT NULL,
    request_id character varying NOT NULL,
    completion_id character varying,
    at_ms bigint NOT NULL,
    workspace_id character varying,
    key_id character varying,
    key_name character varying,
    dialect character varying,
    model character varying,
    target character varying,
    attempts text NOT NULL,
    stream boolean NOT NULL,
    status integer NOT NULL,
    verdict character varying NOT NULL,
    error character varying,
    finish character varying,
    prompt_tokens bigint,
    completion_tokens bigint,
    usage text,
    usage_source character varying,
    flags text,
    held bigint,
    cost bigint,
    price_version character varying,
    ttft_ms integer,
    duration_ms integer NOT NULL,
    chunks integer,
    gap_p50_ms integer,
    gap_p99_ms integer,
    gap_max_ms integer,
    bytes_in bigint,
    bytes_out bigint,
    peer character varying,
    client character varying,
    client_id character varying,
    dropped text,
    instance character varying NOT NULL,
    has_content boolean NOT NULL,
    service_tier character varying,
    rates text,
    admitted_ms integer,
    settled_ms integer,
    strip text,
    price bigint,
    cost_rates text,
    charge_rule character varying,
    end_user character varying,
    session character varying,
    tags text
);
CREATE SEQUENCE public.requests_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.requests_seq_seq OWNED BY public.requests.seq;
CREATE TABLE public.secrets (
    name character varying NOT NULL,
    digest bytea NOT NULL,
    created_ms bigint NOT NULL
);
CREATE TABLE public.sessions (
    digest bytea NOT NULL,
    created_ms bigint NOT NULL,
    used_ms bigint NOT NULL,
    key_id character varying,
    key_digest bytea
);
CREATE TABLE public.target_hours (
    hour bigint NOT NULL,
    provider character varying NOT NULL,
    model character varying NOT NULL,
    credential character varying NOT NULL,
    requests bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    uncosted bigint NOT NULL
);
CREATE TABLE public.usage_days (
    day bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    model character varying NOT NULL,
    provider character varying NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced bigint NOT NULL,
    price bigint DEFAULT 0 NOT NULL,
    uncosted bigint DEFAULT 0 NOT NULL,
    ttft_00 bigint DEFAULT 0 NOT NULL,
    ttft_01 bigint DEFAULT 0 NOT NULL,
    ttft_02 bigint DEFAULT 0 NOT NULL,
    ttft_03 bigint DEFAULT 0 NOT NULL,
    ttft_04 bigint DEFAULT 0 NOT NULL,
    ttft_05 bigint DEFAULT 0 NOT NULL,
    ttft_06 bigint DEFAULT 0 NOT NULL,
    ttft_07 bigint DEFAULT 0 NOT NULL,
    ttft_08 bigint DEFAULT 0 NOT NULL,
    ttft_09 bigint DEFAULT 0 NOT NULL,
    ttft_10 bigint DEFAULT 0 NOT NULL,
    ttft_11 bigint DEFAULT 0 NOT NULL,
    ttft_12 bigint DEFAULT 0 NOT NULL,
    ttft_13 bigint DEFAULT 0 NOT NULL,
    ttft_14 bigint DEFAULT 0 NOT NULL,
    ttft_15 bigint DEFAULT 0 NOT NULL,
    ttft_16 bigint DEFAULT 0 NOT NULL,
    ttft_17 bigint DEFAULT 0 NOT NULL,
    ttft_18 bigint DEFAULT 0 NOT NULL,
    ttft_19 bigint DEFAULT 0 NOT NULL,
    ttft_20 bigint DEFAULT 0 NOT NULL,
    ttft_21 bigint DEFAULT 0 NOT NULL,
    ttft_22 bigint DEFAULT 0 NOT NULL,
    ttft_23 bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.usage_hours (
    hour bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    model character varying NOT NULL,
    provider character varying NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced bigint NOT NULL,
    price bigint DEFAULT 0 NOT NULL,
    uncosted bigint DEFAULT 0 NOT NULL,
    ttft_00 bigint DEFAULT 0 NOT NULL,
    ttft_01 bigint DEFAULT 0 NOT NULL,
    ttft_02 bigint DEFAULT 0 NOT NULL,
    ttft_03 bigint DEFAULT 0 NOT NULL,
    ttft_04 bigint DEFAULT 0 NOT NULL,
    ttft_05 bigint DEFAULT 0 NOT NULL,
    ttft_06 bigint DEFAULT 0 NOT NULL,
    ttft_07 bigint DEFAULT 0 NOT NULL,
    ttft_08 bigint DEFAULT 0 NOT NULL,
    ttft_09 bigint DEFAULT 0 NOT NULL,
    ttft_10 bigint DEFAULT 0 NOT NULL,
    ttft_11 bigint DEFAULT 0 NOT NULL,
    ttft_12 bigint DEFAULT 0 NOT NULL,
    ttft_13 bigint DEFAULT 0 NOT NULL,
    ttft_14 bigint DEFAULT 0 NOT NULL,
    ttft_15 bigint DEFAULT 0 NOT NULL,
    ttft_16 bigint DEFAULT 0 NOT NULL,
    ttft_17 bigint DEFAULT 0 NOT NULL,
    ttft_18 bigint DEFAULT 0 NOT NULL,
    ttft_19 bigint DEFAULT 0 NOT NULL,
    ttft_20 bigint DEFAULT 0 NOT NULL,
    ttft_21 bigint DEFAULT 0 NOT NULL,
    ttft_22 bigint DEFAULT 0 NOT NULL,
    ttft_23 bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.usage_minutes (
    minute bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    model character varying NOT NULL,
    provider character varying NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced bigint NOT NULL,
    price bigint DEFAULT 0 NOT NULL,
    uncosted bigint DEFAULT 0 NOT NULL,
    ttft_00 bigint DEFAULT 0 NOT NULL,
    ttft_01 bigint DEFAULT 0 NOT NULL,
    ttft_02 bigint DEFAULT 0 NOT NULL,
    ttft_03 bigint DEFAULT 0 NOT NULL,
    ttft_04 bigint DEFAULT 0 NOT NULL,
    ttft_05 bigint DEFAULT 0 NOT NULL,
    ttft_06 bigint DEFAULT 0 NOT NULL,
    ttft_07 bigint DEFAULT 0 NOT NULL,
    ttft_08 bigint DEFAULT 0 NOT NULL,
    ttft_09 bigint DEFAULT 0 NOT NULL,
    ttft_10 bigint DEFAULT 0 NOT NULL,
    ttft_11 bigint DEFAULT 0 NOT NULL,
    ttft_12 bigint DEFAULT 0 NOT NULL,
    ttft_13 bigint DEFAULT 0 NOT NULL,
    ttft_14 bigint DEFAULT 0 NOT NULL,
    ttft_15 bigint DEFAULT 0 NOT NULL,
    ttft_16 bigint DEFAULT 0 NOT NULL,
    ttft_17 bigint DEFAULT 0 NOT NULL,
    ttft_18 bigint DEFAULT 0 NOT NULL,
    ttft_19 bigint DEFAULT 0 NOT NULL,
    ttft_20 bigint DEFAULT 0 NOT NULL,
    ttft_21 bigint DEFAULT 0 NOT NULL,
    ttft_22 bigint DEFAULT 0 NOT NULL,
    ttft_23 bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.usage_quarters (
    quarter bigint NOT NULL,
    workspace_id character varying NOT NULL,
    key_id character varying NOT NULL,
    model character varying NOT NULL,
    provider character varying NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced bigint NOT NULL,
    price bigint DEFAULT 0 NOT NULL,
    uncosted bigint DEFAULT 0 NOT NULL,
    ttft_00 bigint DEFAULT 0 NOT NULL,
    ttft_01 bigint DEFAULT 0 NOT NULL,
    ttft_02 bigint DEFAULT 0 NOT NULL,
    ttft_03 bigint DEFAULT 0 NOT NULL,
    ttft_04 bigint DEFAULT 0 NOT NULL,
    ttft_05 bigint DEFAULT 0 NOT NULL,
    ttft_06 bigint DEFAULT 0 NOT NULL,
    ttft_07 bigint DEFAULT 0 NOT NULL,
    ttft_08 bigint DEFAULT 0 NOT NULL,
    ttft_09 bigint DEFAULT 0 NOT NULL,
    ttft_10 bigint DEFAULT 0 NOT NULL,
    ttft_11 bigint DEFAULT 0 NOT NULL,
    ttft_12 bigint DEFAULT 0 NOT NULL,
    ttft_13 bigint DEFAULT 0 NOT NULL,
    ttft_14 bigint DEFAULT 0 NOT NULL,
    ttft_15 bigint DEFAULT 0 NOT NULL,
    ttft_16 bigint DEFAULT 0 NOT NULL,
    ttft_17 bigint DEFAULT 0 NOT NULL,
    ttft_18 bigint DEFAULT 0 NOT NULL,
    ttft_19 bigint DEFAULT 0 NOT NULL,
    ttft_20 bigint DEFAULT 0 NOT NULL,
    ttft_21 bigint DEFAULT 0 NOT NULL,
    ttft_22 bigint DEFAULT 0 NOT NULL,
    ttft_23 bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.workspaces (
    id character varying NOT NULL,
    name character varying NOT NULL,
    prepaid boolean NOT NULL,
    created_ms bigint NOT NULL,
    version bigint NOT NULL,
    price_group character varying
);
ALTER TABLE ONLY public.alerts ALTER COLUMN seq SET DEFAULT nextval('public.alerts_seq_seq'::regclass);
ALTER TABLE ONLY public.audit ALTER COLUMN seq SET DEFAULT nextval('public.audit_seq_seq'::regclass);
ALTER TABLE ONLY public.ledger ALTER COLUMN seq SET DEFAULT nextval('public.ledger_seq_seq'::regclass);
ALTER TABLE ONLY public.requests ALTER COLUMN seq SET DEFAULT nextval('public.requests_seq_seq'::regclass);
INSERT INTO public.accounts VALUES
	('rule:ws_1IXG5lMfImGGT1RBJ:daily:user:49915e0d7d4b402e3017d010bc1c0e83::2026-11-18', 'ws_1IXG5lMfImGGT1RBJ', NULL, 0, 134000, 0, 1795046400000),
	('key:key_0HIUIpcXQHv7nZHhu:2026-11-18', 'default', 'key_0HIUIpcXQHv7nZHhu', 0, 149000, 16538000, NULL),
	('ws:default', 'default', NULL, 0, 633000, 16538000, NULL),
	('rule:ws_1IXG5lMfImGGT1RBJ:daily:user:-::2026-11-18', 'ws_1IXG5lMfImGGT1RBJ', NULL, 0, 201000, 16538000, 1795046400000),
	('ws:ws_1IXG5lMfImGGT1RBJ', 'ws_1IXG5lMfImGGT1RBJ', NULL, 35000000000, 670000, 16538000, NULL),
	('key:key_0HIUIpcXQHv7nZHhu:2026-10-09', 'default', 'key_0HIUIpcXQHv7nZHhu', 0, 149000, 0, NULL);
INSERT INTO public.alembic_version VALUES
	('0005');
INSERT INTO public.attribution_days VALUES
	(20735, 'default', 'file:file', 'api', 'openai', NULL, 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0),
	(20735, 'default', 'file:file', 'end_user', '', '-', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'default', 'file:file', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'default', 'key_0HIUIpcXQHv7nZHhu', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'end_user', '', '-', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'api', 'openai', NULL, 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'default', 'key_0HIUIpcXQHv7nZHhu', 'api', 'openai', NULL, 3, 1, 9, 0, 35, 0, 0, 0, 149000, 0),
	(20735, 'default', 'key_0HIUIpcXQHv7nZHhu', 'end_user', '', '-', 2, 1, 6, 0, 19, 0, 0, 0, 82000, 0),
	(20735, 'default', 'key_0UbygcC3LkZkrTC1C', 'api', 'openai', NULL, 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'default', 'key_0UbygcC3LkZkrTC1C', 'end_user', '', '-', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'api', 'openai', NULL, 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'end_user', '', '-', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0),
	(20775, 'default', 'file:file', 'api', 'openai', NULL, 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0),
	(20775, 'default', 'file:file', 'end_user', '', '-', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'default', 'file:file', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'default', 'key_0HIUIpcXQHv7nZHhu', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'end_user', '', '-', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'api', 'openai', NULL, 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'end_user', 'ann', '49915e0d7d4b402e3017d010bc1c0e83', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0),
	(20775, 'default', 'key_0HIUIpcXQHv7nZHhu', 'api', 'openai', NULL, 3, 1, 9, 0, 35, 0, 0, 0, 149000, 0),
	(20775, 'default', 'key_0HIUIpcXQHv7nZHhu', 'end_user', '', '-', 2, 1, 6, 0, 19, 0, 0, 0, 82000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'api', 'openai', NULL, 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'end_user', '', '-', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0);
INSERT INTO public.audit VALUES
	(1, 1791582223340, 'system', 'default', 'workspace.create', 'default', '{"name":"default","prepaid":false}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x287ca211baa37568f5570c1eaf3cabaab6f28e6bd09b66b7e69d287343f90fae'),
	(2, 1791582222612, 'cli', 'ws_1IXG5lMfImGGT1RBJ', 'workspace.create', 'ws_1IXG5lMfImGGT1RBJ', '{"name":"acme","prepaid":true}', '\x287ca211baa37568f5570c1eaf3cabaab6f28e6bd09b66b7e69d287343f90fae', '\x4aa8f72fd21149b5ac4f8813b5a7d19d439f2e28af361721a073a457fae1a99e'),
	(3, 1791582224315, 'cli', 'ws_1IXG5lMfImGGT1RBJ', 'credit.add', 'ws_1IXG5lMfImGGT1RBJ', '{"amount_nano":25000000000,"granted_nano":25000000000,"note":"first"}', '\x4aa8f72fd21149b5ac4f8813b5a7d19d439f2e28af361721a073a457fae1a99e', '\x3f6a63890472029fae2d5406f23a4201d90c9d945a7657bbbfc054ce4d282409'),
	(4, 1791582227447, 'cli', 'default', 'key.create', 'key_0HIUIpcXQHv7nZHhu', '{"budget_nano":5000000000,"budget_period":"day","last4":"ZHGx","name":"daily"}', '\x3f6a63890472029fae2d5406f23a4201d90c9d945a7657bbbfc054ce4d282409', '\x5dc754c59207e7c1e3f7b88e05ab32a142c2615628cc5aa16846c0ca8c787129'),
	(5, 1791582231640, 'cli', 'ws_1IXG5lMfImGGT1RBJ', 'key.create', 'key_04MUSY6P5yiNBDhKs', '{"last4":"W9VC","log_content":true,"name":"content"}', '\x5dc754c59207e7c1e3f7b88e05ab32a142c2615628cc5aa16846c0ca8c787129', '\x44cf9f50b7c91ec13a085732a853a66313d25f1ae886bef0b6e150f2099f3b5a'),
	(6, 1791582235756, 'cli', 'ws_1IXG5lMfImGGT1RBJ', 'key.create', 'key_1SaRQROh33290oZnF', '{"last4":"U5y8","name":"prepaid","rpm":600}', '\x44cf9f50b7c91ec13a085732a853a66313d25f1ae886bef0b6e150f2099f3b5a', '\x8cb8acd1975c0ff44ef3702aa3588a5c231ac91fb8fde6d8a915cf1eb53ff95a'),
	(7, 1791582239907, 'cli', 'default', 'key.create', 'key_0UbygcC3LkZkrTC1C', '{"last4":"suci","name":"revoked"}', '\x8cb8acd1975c0ff44ef3702aa3588a5c231ac91fb8fde6d8a915cf1eb53ff95a', '\x063be4e7632e4f17571d21bcf564165257ef5ea5239cd1fbc828fa3bb8b50711'),
	(8, 1791582249180, 'system', NULL, 'secret.create', 'admin', '{}', '\x063be4e7632e4f17571d21bcf564165257ef5ea5239cd1fbc828fa3bb8b50711', '\x02c4d8d7316d18f7a93f65aafee95cf0088ce68a245c2dedc5e75165eecabd1f'),
	(9, 1791582249307, 'system', 'default', 'key.create', 'file:file', '{"last4":"cdef","name":"file"}', '\x02c4d8d7316d18f7a93f65aafee95cf0088ce68a245c2dedc5e75165eecabd1f', '\xd44067665129e2d12dfa6106c26362f881902d70c52469d484f658e2d1744a17'),
	(10, 1795038256102, 'cli', 'default', 'key.revoke', 'key_0UbygcC3LkZkrTC1C', '{"last4":"suci","name":"revoked"}', '\xd44067665129e2d12dfa6106c26362f881902d70c52469d484f658e2d1744a17', '\xde6adeafac85119212be789e2d977f61bcfbcad7ff17d3f8862984b307a15ff1'),
	(11, 1795038258727, 'cli', 'ws_1IXG5lMfImGGT1RBJ', 'credit.add', 'ws_1IXG5lMfImGGT1RBJ', '{"amount_nano":10000000000,"granted_nano":35000000000,"note":"second"}', '\xde6adeafac85119212be789e2d977f61bcfbcad7ff17d3f8862984b307a15ff1', '\x412d8e1a7a5479616120822f0bf722e0e1a068b151245bb8b3af4cc1b9dc2162');
INSERT INTO public.contents VALUES
	('req_01a1229fa4a040b1c3e24054900d', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 1791582250144, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d52cb72d43010fc1545e74d6a9d5458923baf4a2e54e0c2dae5d24a635ba05769c6091b6aff9d910cd984026e764f77aba7a5edb6d9ace48f565ad3caeb56ea4991f6c99dbe85dbdd9b8f7afcfc080a36fecbbb5bbc73cdfa267dda3f36ad5cb532eebe82a627d5998eac03b231d4b1cea0088a6bb3b96a2e5f9f9f5fae19f6d180aba2099c8b0b758a560332ba2d498281effc5dd980a846e03f1ee4e8a02a15a245528116750c046109f2be789e880f4279411308b47e768a6216711077c491fc03d87c2de01ef25e3cc46ccac4db00c2a2409d6de2d067d538c330a32a61c3ec1c032a8448aa6c58b37607c65c1c538e3b3cb2061b2c4e3d9f85a50a4e8514532b0f9dec56b56e26cdc7b558ee13f514bf41f5bda83bfdeef28837af78401cc03dc3ae567f18f4064859878bb7567a0273e4974ed56c6c7c061dfe76de4b9b65171bc6ff3b15486b280df62983b1fae506eb5a6a7935ff221c4a18847ccfefa1270bb9f6676050b35b6e1bf748e07b2e79849cb2fd75f143ea9fee9aab965df7139d5000fb', '\x789c7d52cb4ec33010fc159333205254da72e725b820e0425345aeb3490cb6d7b2379482faefacd34229026ef13c766747994ef3f17ef65e64ba2ab2d32253ad2465bd3938879bf9d9ad6a1ede40c2c83e5edcc43b931f5dfbfbe55b5e64fb4586f32750f4e53a54c83e208daea755004990a6e6a3493e1c0f06c323862d56607a530bc6602f8dcb4860cb5abb06820fdaada7d6be8cda76461286b50ec28b56509286d02b2aa8656768bdaf45e622e3d3748eabe095bffb9510a36c805f4c0434d07b658c3a92741b373a82cddecb146c4f5c096905b520be4208acc51df15d76013a9c0a7881b0140b0c5562ac762074145105edf9f2c3225bf164838d0f384fc15c670c237ca78e6dc97362ea8a374642cfea1993dd362adbaca792f0195cb21ff7393f4bdee2f909138424cd376cf29bb8ac80a4367153451f804bdfda525db2ab34fe8094827452e903545aedae4f8200e95ff84b906ad83966378792aa65ebbf2156ab55369b7d004d07f25a', false),
	('req_01a1229fa4b4ee277e45194d212f', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 1791582250163, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced96df6fd33010c7ff9591e752d18d02eb1b0236781942d3865053459e7d49bc3abe605f5626d4ff9d7352b60c6d13127e409adfaceffdfef89478b99c1f4c3225482cf67ee6995679b6c833590b924d6b9e1fbbf6f2a83aff5ebb6f6f6767e767eba393afef8ecde64b755a419e4df20c2f2e41d24dd45422c70169b453597776dd3b49078220e49ebd3e9ccddfecefcf5fb0dca002d387d6600cf6ae1edc9596509006d79b1494a2333418af3d415394da56e05aa7ed50b86c0baf9bce084237d4ab917378362ec35056c10f3e87925c90049f597668a00f17de6b4fc20e35245a825de25e7050765e843e6d67cc96158355ebf0c2ef2456b823edeb82c7f4687f7baed8c09101d420e436b7d96af274918fd97e1cea47e1f932f1cc9e2596d158ee7d4a30e3c1144da2198f26d59070c6c3398a4f506341c532d18c47f394b8c566033aed683caa8bc432de86c215b8eb04341ed00d3a9578a61fd2ff49b3d136bd4123f2d43ed18cf8a2974eb77d8b896924a6d3c4f21f58fe1d3a2e49d832e8a78a6f3c370fc8b89a960ac235d8603f08de372ddfeab3576c20246146dae1e48f04850212daf8dd6e0b5983baf50f238a4e691c49dbfbeadd4d33dc1d8ff878a6204909e19b54b40e94967727080e0ec2e53ce4b0dddeb304cbf79f4f3eac067df50b236cde4e', '\x789cedd8414fc2301400e0bf823b23117451b91915f48231048cd996a5746f6ba16b67db81c4f0dfed36343b0a3d78a0b7e6b5afeff54b93350b02ffb2eb2548a361e72bf468127ac3d0c304699c17ec7c2c8be5289b7f10f97ed79fcd67abd1e4ed7ecc36afd93483d0eb869e582c01ebdfac1e16260f3415bc8749c957f5222c0169a8f6ee5fdff6fd9bc1c0bf30e15c24c0ea54028c897aa902b9a618624d41d65309a4a864ba99dc2a0d799c529e812c24e54de1b48815cd4b86b4904d3d22cc1eca4c06d5a178029f665c953405353263139682419d8e94a24a23ded4c0826bd86f5c0724a4a542559fbc646c67224c6485140bb50f9988e9882a129b632ac17f5646bb9087fc246ddb884f4dfd83e1bca81bf857277a39db80670eef78bcceb3d3b3d043b9e3b3e0d3049c9f855f2bdf291ead2852c767c137d5a6c57c03d4dd420bc6a1c3b3b883b006b9758216821b211307e8be22ffc59753eede82368054393e9ba73496b4a85b7488c722f61cde21787fb33225b5288c6cfb7f69f0f032798c1abfe81b3d42c613', false),
	('req_01a1f09e41d7ca041dc6fddba138', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 1795038265815, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d52cb6edb3010fc15966727b0933aaf730aa4879e72480a4b106872256d4b910277e53828fcef5d526d9c046d6ed2eccc7076c8cde66ab9d0bf2a8daed23795b6bd613b8cfe647d7bf6387db9eb2e77ebfde787ed77c2fde3b70ec2fdeac19b4a2f2a1db73fc0f28bead446d101630c656c131886ecbababc5e2fcfafce2ed6020fd1812fa21ebc8f33b58f688104dde424c1c15ebe97990d44a603f993418a1e8ad21021b1093cab6360087390bbecf9497d556650dc83221c266f3826155b75cf126978024c370a76909ed5534c2e4f060ca09014d984a3843e2dc609da894c0e1b26ef053021443679c392b53e08e66337a6b8a523abc580d4377216e52a2415711c2b7da875bd28750b693aae25f261e486e34f28bee765a7bf5d1ef1d5850c5802f857d8f5e29d41e3800d7a9abdadb13db8233f776a2687f11574f8d7796f6de65d30741f3b65c85ac80d36630287f6ed06cb526a7e35ff231c721882b493f7d030422afd3968cde4e7dba66762181a29b9833426fc73f1edd8bcdcb554adebfa37461a00de', '\x789c7d524b4fc24010fe2b6bcf4878880fce9ae0c11307359434cb76da8e6e779add29600cffddd9822246bd75bfc7cc375fba585c0f7ac97b9a609e26d3343195665337f67c723b7a6aef66e5d57ab2bd785c3d07dc3e3d94e0e6c347abd3a49726b47a01c35faebe21f10123b98e361e34439c3abcba990cc6d7a3cb89c035e5603b5305d652270d6f81a1ce0a7425f8c6a3db4f2d9a2c60dd5acde4f73af06b34903182ef143914bab5bcdf57917041f0453cc7e5b095ef415c0921e812e42584270b9d57878081b53bb8c9311cf6ce62b03375af74adb802f5154251a1e62c77d51b403f55b006ffa636e4f3c8d4e8406150c1786ce4f27e9aec64b2a5b2f1b48ac15c6bad207227862a93392176251b035323eaa590ed31aad8ea8633a65770d13eee727e967cc487974230b1b6dfb09bdfc4590eacd18643155d0029fd688b75e93647fa011903f1a4acf190a3395d1f051ee2bff09720d67072cc690ea34d25d67f43ec76bb64b9fc00f80cf23c', false),
	('req_01a1f09e4231f7833a93a7a1f992', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 1795038265905, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced98cf4fdb3014c7ff959273a81a3a3ada1b123fc6651c3689435345c67e693c1c3bb25f28d5d4ff7dcf4981303184840fd3e69bf57dbf3f7e4aa22c97d9f4284d0443b618fdcc1329f2649127bc62c8eb461d7e3fadede57535cf8e1fae4476c3cfd6379b93765b9d9fce2ec835cd1373fb03383e458db9a1384069f49857adbeeb9cb80586e073679fe7c793e9c9d16c46726d04a82eb402a54ce7eac0de4b0e054ab09d4940c95a85bd71eb10eaa2947a0db6b152f785cba670b26e154363fb7a95a11c8e8c4b3f9416f040e749eab329647426d91a055d38734e3a64baafc18d46d827ee040b65eb98ef53b74aed485166dd5873ebf61229d491745541633aa31f3d5764a0c8353c0ab9ce75b24aff63e643b85ffafa41807e9a44a0c94184190ee6e82a14cd2cd24c46ac8e3803e2c40a22cf803c07f1916a30aaa68c3803e2fc86d462bd0119b73420d64584197047e11eec36120d487463ac8840e35be96fc5594b1dbf454302952ee20cf969cfad6cba1623d45050c711e64760be8f1d9544d310e937f8fddbff918783d380c4ab6eb0407307dadba7defba9e5673df3fda141a606da3cfd2d41210099546ebfdd8c57209efdfd7db15648339076afd57b99a6bf3c1af1ed4c5ee21cfc63a9682c08c95f4ee01d2cf8cbf993c36ef7da162ccfaebf9eaf7ac3ea179de8d4b1', '\x789cedd8cd4fc2301400f07f05779e8481a0702301958b1c34e1b02d4be9de58b51f4bdbf111c3ff6eb7a1d951d783077a5b5efbfa5e7f69b2a661188c86be97228d66bdcfc82369e4cd220fe7486356d0dbb739934feb7c1a8c8fab34d8e0c56e7378284ff9723e793453fdc813db77c0fa27ab8f85c9034d04efe3bce41ff5242c0169a8d60eeea7e3c1e861389998301329d03a35074a453d5581dc130c892620eba114325452dd0c9e9406966484ef401692f0a67056248ab092222d64532f17660d6506c36a533c85a3f91ef8d56a5423f36dc25250a8d391524469c49b1a58700d9785eb8084ac54a8ea9397949e4d848a5d21c5565d4226623a222a4fcc3695e0df33e373c4237e95b66dc4e7a6fe9fe1bcd80f83bbc1959eceb6e08dd3b3d0ebad3af3058ecfeb21e6fc6cfc740e0ed006b095ef18bb338accf9d9f8bd6ad3223b0071e7d0c671e6f46c4e21ec419e1ca10de141c8d409ba5fc9fff931c2dd9dd04a9028e76775a7c69214758b4eb1b362bfb3de75beb9fe0ecb94d4a230b4edf7d370b17e59c60d60fc057b72bc9e', false);
INSERT INTO public.counters VALUES
	('changes', 10),
	('audit', 11);
INSERT INTO public.idempotency VALUES
	('key_1SaRQROh33290oZnF', '\x597569c67d9dda9f937e1298b9c838ed7d4151c8bbfe32ece15458bca0f64c35', '\x076d171a65f8dca172cee516adb11a0b50e1685f8b7ecd3450dfe29f6a3e450e', 'req_01a1f09e42ff7172af6ace9fb5f8', true, 1795124666110);
INSERT INTO public.instances VALUES
	('01a1229fa12b9b2edf731af2', 'vm', 1795038249279, 1795038254864, 1795038255363),
	('01a1f09e3d8b16eab39ab4b6', 'vm', 1795038264720, 1795038268329, NULL);
INSERT INTO public.keys VALUES
	('key_0HIUIpcXQHv7nZHhu', 'default', 'daily', 'store', '\x8f3fe864ac59214940395a289fa586e3bb054475356bd71280d9f7a3d68ba5b6', 'ZHGx', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, 5000000000, 'day', false, NULL, 1791582227447, NULL, NULL, NULL, 4, false, NULL, false),
	('key_04MUSY6P5yiNBDhKs', 'ws_1IXG5lMfImGGT1RBJ', 'content', 'store', '\x4e7dd3adaf4db9a346119334ffa3db960b1cce2b4b9ece05aec530f2b2740bbe', 'W9VC', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, 1791582231640, NULL, NULL, NULL, 5, false, NULL, false),
	('key_1SaRQROh33290oZnF', 'ws_1IXG5lMfImGGT1RBJ', 'prepaid', 'store', '\x0f0f17990d1793ac79288fd23119f39c5792f37e059c6b3eeb113229fd6a1a76', 'U5y8', '["chat","models"]', NULL, NULL, 600, NULL, NULL, NULL, NULL, false, NULL, 1791582235756, NULL, NULL, NULL, 6, false, NULL, false),
	('file:file', 'default', 'file', 'file', '\x3cc78794f7688a85ecccb9a3bbcd099d9bf042f4078285344e1dac6cd4bb12a0', 'cdef', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791582249307, NULL, NULL, NULL, 8, false, NULL, false),
	('key_0UbygcC3LkZkrTC1C', 'default', 'revoked', 'store', '\x4aa668c2163ff74ed01873dbaefc95c5947b45897e74068f341d7d935b701924', 'suci', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791582239907, 1795038256102, NULL, NULL, 9, false, NULL, false);
INSERT INTO public.ledger VALUES
	(1, 1791582224315, 'credit', 'ws_1IXG5lMfImGGT1RBJ', NULL, NULL, 25000000000, NULL, 'first', NULL),
	(2, 1791582249824, 'hold', 'default', 'file:file', 'req_01a1229fa35f015a7e685bc09a5d', -4099000, NULL, NULL, NULL),
	(3, 1791582249854, 'settle', 'default', 'file:file', 'req_01a1229fa35f015a7e685bc09a5d', 4032000, 0, NULL, 67000),
	(4, 1791582249857, 'hold', 'default', 'file:file', 'req_01a1229fa381a2886c54939c55f3', -4099000, NULL, NULL, NULL),
	(5, 1791582249869, 'settle', 'default', 'file:file', 'req_01a1229fa381a2886c54939c55f3', 4032000, 0, NULL, 67000),
	(6, 1791582249877, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa396ef532df7b87d024c', -16522000, NULL, NULL, NULL),
	(7, 1791582250117, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa396ef532df7b87d024c', 16455000, 0, NULL, 67000),
	(8, 1791582250125, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa48edadc3cb2d53b8258', -16553000, NULL, NULL, NULL),
	(9, 1791582250143, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa48edadc3cb2d53b8258', 16486000, 0, NULL, 67000),
	(10, 1791582250144, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1229fa4a040b1c3e24054900d', -16522000, NULL, NULL, NULL),
	(11, 1791582250162, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1229fa4a040b1c3e24054900d', 16455000, 0, NULL, 67000),
	(12, 1791582250163, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1229fa4b4ee277e45194d212f', -16553000, NULL, NULL, NULL),
	(13, 1791582250217, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1229fa4b4ee277e45194d212f', 16486000, 0, NULL, 67000),
	(14, 1791582250224, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa4f15cf6eecd9409afd6', -16522000, NULL, NULL, NULL),
	(15, 1791582250258, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa4f15cf6eecd9409afd6', 16455000, 0, NULL, 67000),
	(16, 1791582250283, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa52b97fbd8d94e0c0eb2', -16553000, NULL, NULL, NULL),
	(17, 1791582250323, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa52b97fbd8d94e0c0eb2', 16486000, 0, NULL, 67000),
	(18, 1791582250324, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa555ca33a8e71e739140', -16540000, NULL, NULL, NULL),
	(19, 1791582250341, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1229fa555ca33a8e71e739140', 16525000, 0, NULL, 15000),
	(20, 1791582250343, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa567a1ec7f7f53d52a29', -16522000, NULL, NULL, NULL),
	(21, 1791582250357, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1229fa567a1ec7f7f53d52a29', 16455000, 0, NULL, 67000),
	(22, 1791582250356, 'hold', 'default', 'key_0UbygcC3LkZkrTC1C', 'req_01a1229fa575ac8dc3b2b05f5080', -4099000, NULL, NULL, NULL),
	(23, 1791582250365, 'settle', 'default', 'key_0UbygcC3LkZkrTC1C', 'req_01a1229fa575ac8dc3b2b05f5080', 4032000, 0, NULL, 67000),
	(24, 1795038258727, 'credit', 'ws_1IXG5lMfImGGT1RBJ', NULL, NULL, 10000000000, NULL, 'second', NULL),
	(25, 1795038265372, 'hold', 'default', 'file:file', 'req_01a1f09e401c94239d4b1aa47445', -4099000, NULL, NULL, NULL),
	(26, 1795038265396, 'settle', 'default', 'file:file', 'req_01a1f09e401c94239d4b1aa47445', 4032000, 0, NULL, 67000),
	(27, 1795038265423, 'hold', 'default', 'file:file', 'req_01a1f09e404f8f2d021373ad946b', -4099000, NULL, NULL, NULL),
	(28, 1795038265428, 'settle', 'default', 'file:file', 'req_01a1f09e404f8f2d021373ad946b', 4032000, 0, NULL, 67000),
	(29, 1795038265432, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e4059d3f4066122e0995f', -16522000, NULL, NULL, NULL),
	(30, 1795038265711, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e4059d3f4066122e0995f', 16455000, 0, NULL, 67000),
	(31, 1795038265720, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e41797e0a22e09d737f79', -16553000, NULL, NULL, NULL),
	(32, 1795038265812, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e41797e0a22e09d737f79', 16486000, 0, NULL, 67000),
	(33, 1795038265815, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1f09e41d7ca041dc6fddba138', -16522000, NULL, NULL, NULL),
	(34, 1795038265895, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1f09e41d7ca041dc6fddba138', 16455000, 0, NULL, 67000),
	(35, 1795038265905, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1f09e4231f7833a93a7a1f992', -16553000, NULL, NULL, NULL),
	(36, 1795038266047, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'req_01a1f09e4231f7833a93a7a1f992', 16486000, 0, NULL, 67000),
	(37, 1795038266046, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42bf7d4bc8a53556dd67', -16522000, NULL, NULL, NULL),
	(38, 1795038266076, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42bf7d4bc8a53556dd67', 16455000, 0, NULL, 67000),
	(39, 1795038266076, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42dd8e3727ecf13b26d1', -16553000, NULL, NULL, NULL),
	(40, 1795038266101, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42dd8e3727ecf13b26d1', 16486000, 0, NULL, 67000),
	(41, 1795038266101, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e42f637b4efda858fa64b', -16540000, NULL, NULL, NULL),
	(42, 1795038266109, 'settle', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e42f637b4efda858fa64b', 16525000, 0, NULL, 15000),
	(43, 1795038266110, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42ff7172af6ace9fb5f8', -16522000, NULL, NULL, NULL),
	(44, 1795038266122, 'settle', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e42ff7172af6ace9fb5f8', 16455000, 0, NULL, 67000),
	(45, 1795038266123, 'hold', 'default', 'key_0HIUIpcXQHv7nZHhu', 'req_01a1f09e430b21110fc512c2868f', -16538000, NULL, NULL, NULL),
	(46, 1795038266574, 'hold', 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'req_01a1f09e44ce56f085ab893e2728', -16538000, NULL, NULL, NULL);
INSERT INTO public.limit_rules VALUES
	('ws_1IXG5lMfImGGT1RBJ', 'daily', 'user', '');
INSERT INTO public.open_requests VALUES
	('req_01a1f09e430b21110fc512c2868f', '01a1f09e3d8b16eab39ab4b6', 1795038266123, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 16538000, 'key:key_0HIUIpcXQHv7nZHhu:2026-11-18', '{"version":"2026-11-18+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":0,"output":0}},"prices":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 83, 1795038269272, NULL, NULL, 1795038266179, 1795038269250, NULL, NULL, NULL, NULL),
	('req_01a1f09e44ce56f085ab893e2728', '01a1f09e3d8b16eab39ab4b6', 1795038266574, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 16538000, NULL, '{"version":"2026-11-18+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":0,"output":0}},"prices":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 71, 1795038269272, NULL, NULL, 1795038266714, 1795038269251, NULL, NULL, NULL, '["rule:ws_1IXG5lMfImGGT1RBJ:daily:user:-::2026-11-18"]');
INSERT INTO public.requests VALUES
	(1, 'req_01a1229fa35f015a7e685bc09a5d', 'chatcmpl-mpQM5sjA9mPwjwMYQnwV5K8AzLWQR', 1791582249824, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.015395,"duration_s":0.014768,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 0, '2026-11-18+config', NULL, 30, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 15, 33, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(2, 'req_01a1229fa381a2886c54939c55f3', 'chatcmpl-vZ7gcAQ7neOQsVhhCKVfQ1YFhRWIj', 1791582249857, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.006902,"duration_s":0.00481,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 0, '2026-11-18+config', 8, 12, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 7, 12, '{"start_ms":10,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(3, 'req_01a1229fa396ef532df7b87d024c', 'chatcmpl-6NCjoUOO8HBwjTizQTnOzt4CR7pDd', 1791582249877, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.235141,"duration_s":0.005154,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 240, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 235, 246, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(4, 'req_01a1229fa48edadc3cb2d53b8258', 'chatcmpl-OV3AJcym4LN2ZxFV8wUtysyiXkDcB', 1791582250125, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.016189,"duration_s":0.00151,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 17, 18, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 16, 18, '{"start_ms":17,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(5, 'req_01a1229fa4a040b1c3e24054900d', 'chatcmpl-FeLbEQcgUzeae7mZGLsSl10KpTyz1', 1791582250144, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.016855,"duration_s":0.001212,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 18, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', true, 'default', '{"input":1000000000,"output":4000000000}', 17, 18, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(6, 'req_01a1229fa4b4ee277e45194d212f', 'chatcmpl-GrpjFgVqhrYA1UVUkFNWCGlwQgSge', 1791582250163, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.052759,"duration_s":0.001282,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 53, 54, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', true, 'default', '{"input":1000000000,"output":4000000000}', 53, 54, '{"start_ms":53,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(7, 'req_01a1229fa4f15cf6eecd9409afd6', 'chatcmpl-ynUeSlGGqw0MxA2Av9X6Gw9EKuiOx', 1791582250224, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.025684,"duration_s":0.008411,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 34, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 26, 34, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(8, 'req_01a1229fa52b97fbd8d94e0c0eb2', 'chatcmpl-IfKWwl6ynjB7if6pLEPbQ9H9vJQ5f', 1791582250283, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.027753,"duration_s":0.011776,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 28, 40, 20, 1, 3, 3, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 28, 40, '{"start_ms":28,"slot_ms":10,"counts":[16,1]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(9, 'req_01a1229fa56594311d128644c19e', NULL, 1791582250341, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(10, 'req_01a1229fa555ca33a8e71e739140', 'chatcmpl-tOkbx23UignW5pC6xjRAc1yDiSqmW', 1791582250324, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","start_s":0.014708,"duration_s":0.001989,"resends":0,"status":200}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', '["max_tokens_set"]', 16540000, 0, '2026-11-18+config', 15, 17, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 15, 18, '{"start_ms":15,"slot_ms":10,"counts":[3]}', 15000, '{"input":0,"output":0}', 'truncated:used', NULL, NULL, NULL),
	(11, 'req_01a1229fa567a1ec7f7f53d52a29', 'chatcmpl-p4hk9WK07TCOa3BfSviWEFpMLZNIw', 1791582250343, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.01261,"duration_s":0.001537,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 14, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 13, 14, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(12, 'req_01a1229fa575ac8dc3b2b05f5080', 'chatcmpl-elP9ylizUVKnbRV82M69qQNcllQXI', 1791582250356, 'default', 'key_0UbygcC3LkZkrTC1C', 'revoked', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.00145,"duration_s":0.007616,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 0, '2026-11-18+config', NULL, 9, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229fa12b9b2edf731af2', false, 'default', '{"input":1000000000,"output":4000000000}', 1, 9, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(13, 'req_01a1f09e401c94239d4b1aa47445', 'chatcmpl-MrLqnTg2t3ny6NDyP97ta2VCuhFm8', 1795038265372, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.016947,"duration_s":0.006994,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 0, '2026-11-18+config', NULL, 24, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 17, 24, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(14, 'req_01a1f09e404f8f2d021373ad946b', 'chatcmpl-VWWzp5whZNNHkXs2lX40rMbdF7yLx', 1795038265423, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.001089,"duration_s":0.003739,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 0, '2026-11-18+config', 2, 5, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 1, 5, '{"start_ms":4,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(15, 'req_01a1f09e4059d3f4066122e0995f', 'chatcmpl-cWnlIQXPz72wMO6nLzUTOqfcCSNsd', 1795038265432, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.263729,"duration_s":0.01517,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 279, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 264, 279, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(16, 'req_01a1f09e41797e0a22e09d737f79', 'chatcmpl-ANVobyIixCDjPZer3mBlDZbxatgvt', 1795038265720, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.090924,"duration_s":0.001282,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 92, 92, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 91, 92, '{"start_ms":92,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(17, 'req_01a1f09e41d7ca041dc6fddba138', 'chatcmpl-5D2XuEHg7v5x4WbYsixXMgenS1Wla', 1795038265815, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.079494,"duration_s":0.000899,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 80, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', true, 'default', '{"input":1000000000,"output":4000000000}', 79, 81, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(18, 'req_01a1f09e4231f7833a93a7a1f992', 'chatcmpl-TAmrGOh915xId1WcDgWw8uyhEA6Fd', 1795038265905, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.13112,"duration_s":0.011111,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 132, 142, 20, 1, 8, 8, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', true, 'default', '{"input":1000000000,"output":4000000000}', 131, 143, '{"start_ms":132,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(19, 'req_01a1f09e42bf7d4bc8a53556dd67', 'chatcmpl-LWPYEgmhtZb7VYqBsItfQBTSGFf5Q', 1795038266046, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.028202,"duration_s":0.001847,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 30, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 28, 30, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL),
	(20, 'req_01a1f09e42dd8e3727ecf13b26d1', 'chatcmpl-g3b5enaAjovJvVIVknhHI0eAzpbnu', 1795038266076, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.022842,"duration_s":0.001616,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 0, '2026-11-18+config', 24, 25, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 23, 25, '{"start_ms":24,"slot_ms":10,"counts":[17]}', 67000, '{"input":0,"output":0}', NULL, 'ann', NULL, NULL),
	(21, 'req_01a1f09e42f637b4efda858fa64b', 'chatcmpl-KzmJ0C62fD4LsxDywVxjJDscTEwHA', 1795038266101, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","start_s":0.006656,"duration_s":0.000818,"resends":0,"status":200}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', '["max_tokens_set"]', 16540000, 0, '2026-11-18+config', 7, 8, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 7, 8, '{"start_ms":7,"slot_ms":10,"counts":[3]}', 15000, '{"input":0,"output":0}', 'truncated:used', NULL, NULL, NULL),
	(22, 'req_01a1f09e42fef23a562e5b62a66c', NULL, 1795038266109, 'default', 'key_0HIUIpcXQHv7nZHhu', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(23, 'req_01a1f09e42ff7172af6ace9fb5f8', 'chatcmpl-CkYNXtWBuIja3vxxsQLGFg7kJFtLr', 1795038266110, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.007998,"duration_s":0.004045,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 0, '2026-11-18+config', NULL, 12, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09e3d8b16eab39ab4b6', false, 'default', '{"input":1000000000,"output":4000000000}', 8, 12, NULL, 67000, '{"input":0,"output":0}', NULL, NULL, NULL, NULL);
INSERT INTO public.secrets VALUES
	('admin', '\x10edc2b0e25a8f54f22c6f6cac67ac2135360d465bc6c6573f66a047d75e038d', 1791582249180);
INSERT INTO public.target_hours VALUES
	(497661, 'sim', 'cut', '', 1, 3, 0, 3, 0, 0),
	(497661, 'sim', 'hello', '', 10, 30, 0, 160, 0, 0),
	(498621, 'sim', 'cut', '', 1, 3, 0, 3, 0, 0),
	(498621, 'sim', 'hello', '', 9, 27, 0, 144, 0, 0);
INSERT INTO public.usage_days VALUES
	(20735, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0UbygcC3LkZkrTC1C', 'fast', 'sim', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_hours VALUES
	(497661, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0UbygcC3LkZkrTC1C', 'fast', 'sim', 1, 0, 3, 0, 16, 0, 0, 0, 67000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_minutes VALUES
	(29917304, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917304, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917304, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917304, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917304, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_quarters VALUES
	(1994486, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'default', 'key_0HIUIpcXQHv7nZHhu', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'ws_1IXG5lMfImGGT1RBJ', 'key_04MUSY6P5yiNBDhKs', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 0, 0, 134000, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'default', 'key_0HIUIpcXQHv7nZHhu', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 0, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'ws_1IXG5lMfImGGT1RBJ', 'key_1SaRQROh33290oZnF', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 0, 0, 201000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.workspaces VALUES
	('default', 'default', false, 1791582223340, 1, NULL),
	('ws_1IXG5lMfImGGT1RBJ', 'acme', true, 1791582222612, 10, NULL);
SELECT pg_catalog.setval('public.alerts_seq_seq', 1, false);
SELECT pg_catalog.setval('public.audit_seq_seq', 1, false);
SELECT pg_catalog.setval('public.ledger_seq_seq', 46, true);
SELECT pg_catalog.setval('public.requests_seq_seq', 23, true);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkey PRIMARY KEY (version_num);
ALTER TABLE ONLY public.alert_conditions
    ADD CONSTRAINT alert_conditions_pkey PRIMARY KEY (subject);
ALTER TABLE ONLY public.alert_deliveries
    ADD CONSTRAINT alert_deliveries_pkey PRIMARY KEY (webhook, alert_seq);
ALTER TABLE ONLY public.alerts
    ADD CONSTRAINT alerts_id_key UNIQUE (id);
ALTER TABLE ONLY public.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.attribution_days
    ADD CONSTRAINT attribution_days_pkey PRIMARY KEY (day, workspace_id, key_id, kind, value);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.contents
    ADD CONSTRAINT contents_pkey PRIMARY KEY (request_id);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key_id, digest);
ALTER TABLE ONLY public.instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_old_digest_key UNIQUE (old_digest);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_once UNIQUE (request_id, kind);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.limit_rules
    ADD CONSTRAINT limit_rules_pkey PRIMARY KEY (workspace_id, name, per, key_id);
ALTER TABLE ONLY public.open_requests
    ADD CONSTRAINT open_requests_pkey PRIMARY KEY (request_id);
ALTER TABLE ONLY public.payment_events
    ADD CONSTRAINT payment_events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_session_id_key UNIQUE (session_id);
ALTER TABLE ONLY public.provider_signs
    ADD CONSTRAINT provider_signs_pkey PRIMARY KEY (provider, instance);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_request_id_key UNIQUE (request_id);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY public.target_hours
    ADD CONSTRAINT target_hours_pkey PRIMARY KEY (hour, provider, model, credential);
ALTER TABLE ONLY public.usage_days
    ADD CONSTRAINT usage_days_pkey PRIMARY KEY (day, workspace_id, key_id, model, provider);
ALTER TABLE ONLY public.usage_hours
    ADD CONSTRAINT usage_hours_pkey PRIMARY KEY (hour, workspace_id, key_id, model, provider);
ALTER TABLE ONLY public.usage_minutes
    ADD CONSTRAINT usage_minutes_pkey PRIMARY KEY (minute, workspace_id, key_id, model, provider);
ALTER TABLE ONLY public.usage_quarters
    ADD CONSTRAINT usage_quarters_pkey PRIMARY KEY (quarter, workspace_id, key_id, model, provider);
ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT workspaces_name_key UNIQUE (name);
ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT workspaces_pkey PRIMARY KEY (id);
CREATE INDEX accounts_until ON public.accounts USING btree (until_ms) WHERE (until_ms IS NOT NULL);
CREATE INDEX alert_deliveries_waiting ON public.alert_deliveries USING btree (webhook, alert_seq) WHERE ((delivered_ms IS NULL) AND (given_up_ms IS NULL));
CREATE INDEX alerts_of_workspace ON public.alerts USING btree (workspace_id, seq);
CREATE INDEX attribution_of_kind ON public.attribution_days USING btree (kind, day);
CREATE INDEX attribution_of_user ON public.attribution_days USING btree (workspace_id, digest, day) WHERE (digest IS NOT NULL);
CREATE INDEX attribution_of_value ON public.attribution_days USING btree (workspace_id, kind, value, day);
CREATE INDEX ix_accounts_key_id ON public.accounts USING btree (key_id);
CREATE INDEX ix_accounts_workspace_id ON public.accounts USING btree (workspace_id);
CREATE INDEX ix_contents_at_ms ON public.contents USING btree (at_ms);
CREATE INDEX ix_contents_key_id ON public.contents USING btree (key_id);
CREATE INDEX ix_idempotency_until_ms ON public.idempotency USING btree (until_ms);
CREATE INDEX ix_keys_version ON public.keys USING btree (version);
CREATE INDEX ix_keys_workspace_id ON public.keys USING btree (workspace_id);
CREATE INDEX ix_payments_workspace_id ON public.payments USING btree (workspace_id);
CREATE INDEX ix_workspaces_version ON public.workspaces USING btree (version);
CREATE INDEX ledger_of_workspace ON public.ledger USING btree (workspace_id, seq);
CREATE INDEX open_requests_cancelled ON public.open_requests USING btree (instance) WHERE (cancel_ms IS NOT NULL);
CREATE INDEX requests_by_time ON public.requests USING btree (at_ms, seq, workspace_id, key_id, model, target, verdict, dialect, status, error, stream, cost, price);
CREATE INDEX requests_of_completion ON public.requests USING btree (completion_id, seq);
CREATE INDEX requests_of_end_user ON public.requests USING btree (end_user, at_ms, seq) WHERE (end_user IS NOT NULL);
CREATE INDEX requests_of_key ON public.requests USING btree (key_id, at_ms, seq, workspace_id, model, target, verdict, dialect, status, error, stream, cost, price);
CREATE INDEX requests_of_session ON public.requests USING btree (session, at_ms, seq) WHERE (session IS NOT NULL);
CREATE INDEX requests_of_workspace ON public.requests USING btree (workspace_id, at_ms, seq, key_id, model, target, verdict, dialect, status, error, stream, cost, price);
CREATE INDEX usage_of_key ON public.usage_hours USING btree (key_id, hour);
