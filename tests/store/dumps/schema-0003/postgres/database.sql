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
    held bigint NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
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
    show_routing boolean DEFAULT false NOT NULL
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
    note text
);
CREATE SEQUENCE public.ledger_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.ledger_seq_seq OWNED BY public.ledger.seq;
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
    last_ms bigint
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
    strip text
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
    version bigint NOT NULL
);
ALTER TABLE ONLY public.audit ALTER COLUMN seq SET DEFAULT nextval('public.audit_seq_seq'::regclass);
ALTER TABLE ONLY public.ledger ALTER COLUMN seq SET DEFAULT nextval('public.ledger_seq_seq'::regclass);
ALTER TABLE ONLY public.requests ALTER COLUMN seq SET DEFAULT nextval('public.requests_seq_seq'::regclass);
INSERT INTO public.accounts VALUES
	('key:key_0TGSkKNw87sNqRyAy:2026-10-09', 'default', 'key_0TGSkKNw87sNqRyAy', 0, 149000, 0),
	('key:key_0TGSkKNw87sNqRyAy:2026-11-18', 'default', 'key_0TGSkKNw87sNqRyAy', 0, 149000, 16538000),
	('ws:default', 'default', NULL, 0, 633000, 16538000),
	('ws:ws_0VR5FzrD5OwlNSgFo', 'ws_0VR5FzrD5OwlNSgFo', NULL, 35000000000, 670000, 16538000);
INSERT INTO public.alembic_version VALUES
	('0003');
INSERT INTO public.audit VALUES
	(1, 1791581877640, 'system', 'default', 'workspace.create', 'default', '{"name":"default","prepaid":false}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\xc99bc9863d2bb247ad8528f859469c9703b8676cfc7f39b98b8e19e2bbc3b562'),
	(2, 1791581877147, 'cli', 'ws_0VR5FzrD5OwlNSgFo', 'workspace.create', 'ws_0VR5FzrD5OwlNSgFo', '{"name":"acme","prepaid":true}', '\xc99bc9863d2bb247ad8528f859469c9703b8676cfc7f39b98b8e19e2bbc3b562', '\x46aaff8ba6bb360709f2044dc71c2294ed5e3903975f86b79fd427392152c8f2'),
	(3, 1791581878446, 'cli', 'ws_0VR5FzrD5OwlNSgFo', 'credit.add', 'ws_0VR5FzrD5OwlNSgFo', '{"amount_nano":25000000000,"granted_nano":25000000000,"note":"first"}', '\x46aaff8ba6bb360709f2044dc71c2294ed5e3903975f86b79fd427392152c8f2', '\xb4227898f80de9b9cd5d904394e06ed122563f14413421efd7496957281d92b3'),
	(4, 1791581879752, 'cli', 'default', 'key.create', 'key_0TGSkKNw87sNqRyAy', '{"budget_nano":5000000000,"budget_period":"day","last4":"Mp3I","name":"daily"}', '\xb4227898f80de9b9cd5d904394e06ed122563f14413421efd7496957281d92b3', '\x8b2c656b6df894518a1da4ccbf0f59bc460d1b629e14988c09b46e26ca382faa'),
	(5, 1791581880932, 'cli', 'ws_0VR5FzrD5OwlNSgFo', 'key.create', 'key_080JG8JuAxG2MDClX', '{"last4":"cPt1","log_content":true,"name":"content"}', '\x8b2c656b6df894518a1da4ccbf0f59bc460d1b629e14988c09b46e26ca382faa', '\xcb1d070953476fca3d67aaf2c1a629a8eb849cecf4d6d20955aebf54b8bfb4bb'),
	(6, 1791581882182, 'cli', 'ws_0VR5FzrD5OwlNSgFo', 'key.create', 'key_11DRfhnUxYHs1wW2w', '{"last4":"lt80","name":"prepaid","rpm":600}', '\xcb1d070953476fca3d67aaf2c1a629a8eb849cecf4d6d20955aebf54b8bfb4bb', '\xc4909dd68b40e89addca15c9c73958627a800c99e99ffec6546bf94760fa4744'),
	(7, 1791581883748, 'cli', 'default', 'key.create', 'key_0y07iQ8heC1Tf6hn2', '{"last4":"elYY","name":"revoked"}', '\xc4909dd68b40e89addca15c9c73958627a800c99e99ffec6546bf94760fa4744', '\x9002c09e715cb749795480581b7e7ec69d27f821ff32d8163bb7d713ecbc75b0'),
	(8, 1791581885664, 'system', NULL, 'secret.create', 'admin', '{}', '\x9002c09e715cb749795480581b7e7ec69d27f821ff32d8163bb7d713ecbc75b0', '\x37fae250b92fe608512247a56cbfa2e885365b93ddd0caf1fc03b4172074b898'),
	(9, 1791581885711, 'system', 'default', 'key.create', 'file:file', '{"last4":"cdef","name":"file"}', '\x37fae250b92fe608512247a56cbfa2e885365b93ddd0caf1fc03b4172074b898', '\xc6a8a2bb5773bede6508fcfdb067deeac5b7a750eb2a46e7f69251d8cab88ae4'),
	(10, 1795037891601, 'cli', 'default', 'key.revoke', 'key_0y07iQ8heC1Tf6hn2', '{"last4":"elYY","name":"revoked"}', '\xc6a8a2bb5773bede6508fcfdb067deeac5b7a750eb2a46e7f69251d8cab88ae4', '\x5e440cb18610a57b76b376ca633f4339833f54b0e7e8339bfe252da5e849d6a7'),
	(11, 1795037892197, 'cli', 'ws_0VR5FzrD5OwlNSgFo', 'credit.add', 'ws_0VR5FzrD5OwlNSgFo', '{"amount_nano":10000000000,"granted_nano":35000000000,"note":"second"}', '\x5e440cb18610a57b76b376ca633f4339833f54b0e7e8339bfe252da5e849d6a7', '\xfe17ec45ae798b3290eb089a6cdedd2b9f867625256a2cb1c00cc24e2da17f0b');
INSERT INTO public.contents VALUES
	('req_01a1229a15e099477725a9bbd498', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 1791581885919, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d525d6fd43010fc2bc6cf47755155b8eb2b1f058410123a09e912453e7b932c38dec8def4a8d0fd77d64ee9b508784b6667c6b363eff7d57aa57fd61a5dadaf6b6d07c3769cfc73f804376fb7bbc3ebdd877e1b2ee9e32bc0afd3e737f3ee663ed67a556b3a7c03cb0faa0b4ba203460a656c231886ec5abddc56579b6ab3b912782407be8806f09e16ea40682109bacf4982831ff2bdce6c48c9f4207f3288e4a1284d4a98d8045ed41418c212e45df67ca6de2b332a1e40251c676f98a2a24e7d6189341e01e3b5825b8877ea48d1e5c988011426956cc449425f14e308dd9c4c0e1b66ef053021109bbc61c9da9c04f3d44f910ee9ccea30601a5a392be52a2455629a6a7d6a74b32a750b693eaf25f271e296e93b14dfcbb2d3ef2ecf78f542062c01fc236cbbfac3a075c0067d5abcadb103b8333f776a6687f4083afdedbca736cb2e18faff3b65c85ac80db6530487f6e906eb526a7e35ff229c729804f156de43cb08b1f4e7a033b35f6e3bdd2586b195927b8853c4fb8befa6f6e1aea56add34bf0024ed00cf', '\x789c7d52db4ac34010fd9535cf550c526d7df52e22821484a684ed66da8c6e7696dd8955a4ffee6c5a5b2bea5bf65c66ce1c321ee787bdeca3c8b02ab2d32233b566d378bb0ff77075391c4dcf47b7f3a13ba2bb33c027ff70d18eaeda4591f58a8ca6cf6078e33a30243e6024d7d12680664853f39361de1fe483415fe0862ab09da9066ba993c6f7c8d094337473083ea05b4d9df93262d35acd14563a08af68a06484d0292a98e9d6f26a5f4dc245c1c7e91c57c19b7c1fa69510a39e83bc840864a1f3ea1831b2766b373986f5deeb146c4fdd28dd28ae416d42289aa94796bb9a05603855f00ae15d2d28548969d081c2a8a209e8e5f283225bca644b731f689a82b9d65a41e44e8c75297362ea4a3646262fea8990ed36aad81acf25d30bb8643fea727e95bcc5f363219858db6fd8f0377159016bb4715d4517404adfda525dbaad907e40c6403aa9f4012a34bbeb932040fa17fe12a41a768ed9cd61b4a9c5fa6f88e572994d269fe21ef234', false),
	('req_01a1229a15eb96fcdb8bf5982b97', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 1791581885930, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced965b6bdb3014c7bf4ae7672f2c8c346e1ec70aeb58574a6936888351a5e3588b2c79d2716f23dfbd4776daba57cad05bf526fee7fed3c1d662314d13c190cd76fee589147932cb135e31e475a33e1e7c39fdfd43cae3e9dff9eef7f97cffd7f5c4e94c1f5d1f1eae4d9ea47962cefe00c7bba811371407288d1ef1aad5ebce895b60083ef778ba379e64e32c9b905c1b01aa0bad40a93e9f037b2e391428c1762601256b15f6c62b875017a5d42bb08d95ba2f5c36859375ab181adbd7ab0ce570645cf8a1b4804b3a7f4a7d36858cce245ba3a00b67ce49874cf735b8d108dbc49d60a16c1df37dea56a90d29caac1a6bcedc5622853a92ae2a684c67f4ade7920c14b9825b21d7b94e96e9bb253e44fbadaf1f7186c1f921a20c8572e720b20cc692d5116630985841a4198ce6203e320dc4d4941166309827482dd61720e38606833a8b2883ed279c83bd8a3c83f1bc305684c199459ce1fe451126c1aca50ef4f68c3809a7741166b8873cb7b2e95a8c48c3201d4594ff8ff26de4a8249a8638bf537ac3b16940a2553758a05983f6f6cfdefbaee57b7dbc4b0634c8d440db4b1f2528042093ca6d379bf10ac4bdbfbf2dd60a6906d2e6b97a0fd3f4574723be9ec94b9c83ff20158d0521f9c309bc83057f392f396c364f7760f1f5e8e7feb2979737a73ed3d5', '\x789cedd8414fc2301400e0bf823b4f22076472349288118931a2095b96d2bdb14ad7ceb603c1f0df7ddbd0ec28e5486fcd6bdf7bed97266b369f0f7c2f21860c3bdfa1c792d01b861ecd88a179c12fc7b7afef8f8c3d0f3e67d70fb3d9e86dd7d72210d3dd64b292a1e7879e5c7c00357f595d2a310f0c93a24bb352acea4554013150d5ee0d6e7afda017047d0ce732015ea766c079534f835a330ab161a0eaa904525272d34c6eb5813c4e9958822a14134de3b48835cb4b4e8c544dbf4c620d8d93f3ea5022812f1c5ff955356e088e31ac24873a9d68cdb421a2e941a53070285c0714a4a526d53e45c9f91e235c2e0b2517fa10c208ee88e92cc6636a297e5746fb5084e22c6ddb88f74dffa3e1bcc83fdbbbd9f6bb7076d6769db1c3b3c723b9d3b3d73319383e7bbe56be43b44594a9d3b3d77b31b8c57c03ccdd417bc5a1b3b3bf81b006b57580f6801ba9124bbfc0f99df001717aa8973361fb06747ee8c7b4d33be1054d152bea2d3a434bc3aeb33bc2ee7f54d8d2c80261dbff47e777d3a751d4f0453ff642bc86', false),
	('req_01a1f098967914201ebdfb0fee9c', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 1795037894264, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d52d18ed33010fc15e3e7726a38a0d77bbc279010d209212a9a2872ed4d63cef146de4daf07eabfb376e07a8780b76476663c3bf6765bbd5ae81fb5f6aed6d7b5b6bd613b8ce1e5668ac7bbdb43f5e1e3d7e3e6f3cdf176b9aa6e3657bbb0a22fdf6bbda835eebe81e547d58545d1017b8c656c131886ec5aadd66f9697ababf56b810774108aa8871070a6f6e82d90a0db9c243a38caf732b381c8ec41fe64903040511a224f6c22cf6a8c0c710ef22e7bbe50ef951914f7a0c80f53308c4961a73eb1441aeec1a76b0507480fea1e93cb93c147509e14d9e447097d518c137413991c364e21086062443679c392b5390916703f26dcd199d5f9e8a96fe52cca55482a621c6b7d6a74b328750b693aaf25f261e496f10e8aef65d9e9779767bc7a2b039600e109b65efc61d03a60e303cdded6d81edc999f3b3593f3f8043afdedbce736f32e3eeeffef94216b2137d88e099cb7cf37589652f3abf917e194c310a483bc87963da4d29f83ce4c61be6d7a2086a19592f790c6e47f5d7c37b68f772d55eba6f9095d6c00e1', '\x789c7d52db4ec24010fd95b5cf48a8a85c1e79d2c49810632452d22cdb81ae6c779add29174dffddd98220467deb9ecbcc99934ea7f1552bfa48229d25d13089542e4915a5b99c5476bb1aafe387c7d7ede479b41d777af168d29f9b9e7f794fa25612e1fc0d141d5d6d85ec03d2681b5a399004616adc1bdc74babdfee09ae10233308d290763b091fa9d2728d285b64b70a5d3763f7551a65e179591846eaf03b7d60a52d2e01a45060b5919daefcb9139cff8349c6333d8f27727ac04efe512f8c58443038d577aaf3d497b70a32538ecbd0bc12ec4bd9085a01cc43184c0857822beabd8807643016b703bb1419705a6d01684f6c22ba74bbebc9d44354f36b82c1dce43305b19c308dfa97d9ef21c1fbae28d9eb064f58cc9ea14956d454929e10a6cb0779b9c5f259ff0f896094292e61b36f84d9c6640521b7fa8a209c0a59f6ca12e59651a7f404a4138292d1d645a9daf0f0207e15ff84b106a383be63c87922a67ebbf21eaba8e66b34f151cf244', false),
	('req_01a1f098968603f7e0860d96d326', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 1795037894277, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced965d6bdb301486ff4ae76b2f346db62cb9ee3e4a61b918ec260e46918e63adb28e918e9b9591ffbe233b6dddd28dc17451a8eec47bbe1f1d6cadd7d3699e29416279f2abc8b42ab26591c95a906c5af3b69defdde759f569662b7f85faecaa595d6a7b46dd76f5dd14595e64b8fd0192eea32612390e48a39dc8bab3d7bd9374200842eee97cf1eef47cfe613163b94105a60fadc118ec5d3db81b2da1240dae3729a844676830de7a82a6acb4dd816b9db643e1aa2dbd6e3a2308dd50af46cee1d9b80e4359053ff97c9a876c86049f597668a00f17de6b4fc20e35245a8263e25e7050755e843e6d67cc811583bbd6e1d61f2556b823edeb92c7f468ef3c376ce0c81ddc09852d6cb6c95f2ff231db2f43fdc43312cf3789653496279709663c98a24934e3d1a41a12ce783847f1096a2ca858259af1687e236eb1d9834e3b1a8fea32b18cb7a17003ee36018d07748f4e259ee987f4326936daa63768449eda279a115ff4d2e9b66f31318dc4749258fe07cb7f43c725095b06fd5af18de7e6011957d35249780d36d8cf83f77dcb0ffaf43d1b08499891b6c89f24281590d0c61f775bc81ad4837fb82ed1298d23e9f05cbdc76986bbe311ff9e29485242f82695ad03a5e5e30982838370397f72381c9e5982f5c5eaebc7cda06f7e03ab01ddfd', '\x789cedd8bd6ec2301000e057a1995304948ac2dc3f8454864a5d920819e742dc3abec8be4051c5bbd7496895b1e0a103deacb3cf77fe642956a268380c8394119bf5bee240a471308b039e33e24529afcbc94e3f8db3c7b1cacc02c568512ce7428da85a2fdf641c847180eb77e0f49bd5e768f38004aa3ecf2bf5d12ce21a1841bdf77032bd1ddc4ceea6631b2e3005d9a4e62025364b0de8ade0b02201ba994a216395a476726f088a5526d40674a9856a0b67e5ca88a2928c50b7f572b47b183b19d58752297cdaf120ac7793c4ecd886354a68d29931c210536d0d8e8ae0b87113d0905586d57daa4aca838d48dc941ad7e618b211db9130f9ca1ed3a0fa59991c6215ab8bb4ed223eb7f54f860b92f0722f6717f0cae39d8fd79b7b3d073d56783e073ecac1fb39f875f2bde2d98a98793e07be57b22d163b10fe163a30ce3c9ec31d842de8bd177410dca14e3da0ff8afc175f21947f0bba000ae3f95c9ed25c8bb269d1239e8bd8f778a7e0fdcdca96242cad6cf77f6974bf7c79485abfe41b0abfc5d3', false);
INSERT INTO public.counters VALUES
	('changes', 10),
	('audit', 11);
INSERT INTO public.idempotency VALUES
	('key_11DRfhnUxYHs1wW2w', '\x2dd33b3db9b55e3e07b1ab864ee1138a444bf6dad676ab1db3e8214998b8b999', '\x076d171a65f8dca172cee516adb11a0b50e1685f8b7ecd3450dfe29f6a3e450e', 'req_01a1f09896bbe5f662daad01e1f6', true, 1795124294330);
INSERT INTO public.instances VALUES
	('01a1229a15036c001345bec8', 'vm', 1795037885708, 1795037890857, 1795037891002),
	('01a1f09895afbc2cab71cbe7', 'vm', 1795037894072, 1795037897189, NULL);
INSERT INTO public.keys VALUES
	('key_0TGSkKNw87sNqRyAy', 'default', 'daily', 'store', '\xe0143b47d35e597fbd42fa397849903629a07b0243a20f61c235f2f7eccfc4f2', 'Mp3I', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, 5000000000, 'day', false, NULL, 1791581879752, NULL, NULL, NULL, 4, false),
	('key_080JG8JuAxG2MDClX', 'ws_0VR5FzrD5OwlNSgFo', 'content', 'store', '\x728504e59923a6c86a9f9a9cca1b268b2d9b55c449b7604d54abb2ab05f268e6', 'cPt1', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, 1791581880932, NULL, NULL, NULL, 5, false),
	('key_11DRfhnUxYHs1wW2w', 'ws_0VR5FzrD5OwlNSgFo', 'prepaid', 'store', '\xa3966ae78db82a60005732ba313d34d34cb4e8edebd10e31903e28ca129d91fd', 'lt80', '["chat","models"]', NULL, NULL, 600, NULL, NULL, NULL, NULL, false, NULL, 1791581882182, NULL, NULL, NULL, 6, false),
	('file:file', 'default', 'file', 'file', '\x3cc78794f7688a85ecccb9a3bbcd099d9bf042f4078285344e1dac6cd4bb12a0', 'cdef', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791581885711, NULL, NULL, NULL, 8, false),
	('key_0y07iQ8heC1Tf6hn2', 'default', 'revoked', 'store', '\x0d8306f491d20deb02192000cc443c9a3e4ae22f21599d75784a123359b2f0b7', 'elYY', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791581883748, 1795037891601, NULL, NULL, 9, false);
INSERT INTO public.ledger VALUES
	(1, 1791581878446, 'credit', 'ws_0VR5FzrD5OwlNSgFo', NULL, NULL, 25000000000, NULL, 'first'),
	(2, 1791581885830, 'hold', 'default', 'file:file', 'req_01a1229a1587288f0b6224fc22eb', -4099000, NULL, NULL),
	(3, 1791581885838, 'settle', 'default', 'file:file', 'req_01a1229a1587288f0b6224fc22eb', 4032000, 67000, NULL),
	(4, 1791581885838, 'hold', 'default', 'file:file', 'req_01a1229a158f47c7a29f05e70844', -4099000, NULL, NULL),
	(5, 1791581885843, 'settle', 'default', 'file:file', 'req_01a1229a158f47c7a29f05e70844', 4032000, 67000, NULL),
	(6, 1791581885845, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a1595fc5c77f8d4efbe49', -16522000, NULL, NULL),
	(7, 1791581885909, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a1595fc5c77f8d4efbe49', 16455000, 67000, NULL),
	(8, 1791581885910, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a15d79bdd48b7ab8e441a', -16553000, NULL, NULL),
	(9, 1791581885919, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a15d79bdd48b7ab8e441a', 16486000, 67000, NULL),
	(10, 1791581885919, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1229a15e099477725a9bbd498', -16522000, NULL, NULL),
	(11, 1791581885929, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1229a15e099477725a9bbd498', 16455000, 67000, NULL),
	(12, 1791581885930, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1229a15eb96fcdb8bf5982b97', -16553000, NULL, NULL),
	(13, 1791581885938, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1229a15eb96fcdb8bf5982b97', 16486000, 67000, NULL),
	(14, 1791581885942, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a15f798d4ee76b0bb18aa', -16522000, NULL, NULL),
	(15, 1791581885952, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a15f798d4ee76b0bb18aa', 16455000, 67000, NULL),
	(16, 1791581885954, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a1601616db263b4d30191', -16553000, NULL, NULL),
	(17, 1791581885959, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a1601616db263b4d30191', 16486000, 67000, NULL),
	(18, 1791581885962, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a160bf8fedd3c7f953edd', -16540000, NULL, NULL),
	(19, 1791581885970, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1229a160bf8fedd3c7f953edd', 16525000, 15000, NULL),
	(20, 1791581885972, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a16140ed0ecc5579f1384', -16522000, NULL, NULL),
	(21, 1791581885996, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1229a16140ed0ecc5579f1384', 16455000, 67000, NULL),
	(22, 1791581885999, 'hold', 'default', 'key_0y07iQ8heC1Tf6hn2', 'req_01a1229a162f3de96dd7f456fcec', -4099000, NULL, NULL),
	(23, 1791581886002, 'settle', 'default', 'key_0y07iQ8heC1Tf6hn2', 'req_01a1229a162f3de96dd7f456fcec', 4032000, 67000, NULL),
	(24, 1795037892197, 'credit', 'ws_0VR5FzrD5OwlNSgFo', NULL, NULL, 10000000000, NULL, 'second'),
	(25, 1795037894171, 'hold', 'default', 'file:file', 'req_01a1f098961cc96d66c2238543ba', -4099000, NULL, NULL),
	(26, 1795037894179, 'settle', 'default', 'file:file', 'req_01a1f098961cc96d66c2238543ba', 4032000, 67000, NULL),
	(27, 1795037894181, 'hold', 'default', 'file:file', 'req_01a1f0989625f4f5830a05b97fbf', -4099000, NULL, NULL),
	(28, 1795037894192, 'settle', 'default', 'file:file', 'req_01a1f0989625f4f5830a05b97fbf', 4032000, 67000, NULL),
	(29, 1795037894194, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f0989631805ad48af3e40e1d', -16522000, NULL, NULL),
	(30, 1795037894246, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f0989631805ad48af3e40e1d', 16455000, 67000, NULL),
	(31, 1795037894245, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f0989666df9b47f5130b0f7a', -16553000, NULL, NULL),
	(32, 1795037894264, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f0989666df9b47f5130b0f7a', 16486000, 67000, NULL),
	(33, 1795037894264, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1f098967914201ebdfb0fee9c', -16522000, NULL, NULL),
	(34, 1795037894276, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1f098967914201ebdfb0fee9c', 16455000, 67000, NULL),
	(35, 1795037894277, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1f098968603f7e0860d96d326', -16553000, NULL, NULL),
	(36, 1795037894289, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'req_01a1f098968603f7e0860d96d326', 16486000, 67000, NULL),
	(37, 1795037894289, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896925cff49c9beb96b90', -16522000, NULL, NULL),
	(38, 1795037894309, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896925cff49c9beb96b90', 16455000, 67000, NULL),
	(39, 1795037894310, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896a746a7290865ba10df', -16553000, NULL, NULL),
	(40, 1795037894316, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896a746a7290865ba10df', 16486000, 67000, NULL),
	(41, 1795037894318, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f09896af33a33ee001fc905c', -16540000, NULL, NULL),
	(42, 1795037894324, 'settle', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f09896af33a33ee001fc905c', 16525000, 15000, NULL),
	(43, 1795037894330, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896bbe5f662daad01e1f6', -16522000, NULL, NULL),
	(44, 1795037894351, 'settle', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f09896bbe5f662daad01e1f6', 16455000, 67000, NULL),
	(45, 1795037894352, 'hold', 'default', 'key_0TGSkKNw87sNqRyAy', 'req_01a1f09896d0313d297b6ec193a1', -16538000, NULL, NULL),
	(46, 1795037894760, 'hold', 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'req_01a1f0989869c096ba74f0520ff6', -16538000, NULL, NULL);
INSERT INTO public.open_requests VALUES
	('req_01a1f0989869c096ba74f0520ff6', '01a1f09895afbc2cab71cbe7', 1795037894760, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 16538000, NULL, '{"version":"2026-11-15+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 71, 1795037897172, NULL, NULL, 1795037894820, 1795037897169),
	('req_01a1f09896d0313d297b6ec193a1', '01a1f09895afbc2cab71cbe7', 1795037894352, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 16538000, 'key:key_0TGSkKNw87sNqRyAy:2026-11-18', '{"version":"2026-11-15+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 82, 1795037897172, NULL, NULL, 1795037894408, 1795037897158);
INSERT INTO public.requests VALUES
	(1, 'req_01a1229a1587288f0b6224fc22eb', 'chatcmpl-oi7fl1vWZdpuJqb7anPKrx5K7qT5N', 1791581885830, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.004852,"duration_s":0.002646,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 8, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 5, 8, NULL),
	(2, 'req_01a1229a158f47c7a29f05e70844', 'chatcmpl-T1AyguuAL1IIjgOOD5EbqKeGUEtKG', 1791581885838, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.000957,"duration_s":0.004019,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 2, 5, 20, 0, 1, 1, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 1, 5, '{"start_ms":4,"slot_ms":10,"counts":[17]}'),
	(3, 'req_01a1229a1595fc5c77f8d4efbe49', 'chatcmpl-PFZTBBvwdq2zBppLSKzJEajqUR9Ih', 1791581885845, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.063441,"duration_s":0.000781,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 64, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 63, 64, NULL),
	(4, 'req_01a1229a15d79bdd48b7ab8e441a', 'chatcmpl-vCRB2X3mxFYXO742J1FXa0vJ86Cpa', 1791581885910, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.008346,"duration_s":0.000979,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 9, 9, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 8, 9, '{"start_ms":9,"slot_ms":10,"counts":[17]}'),
	(5, 'req_01a1229a15e099477725a9bbd498', 'chatcmpl-eNeGF9UbDUJg9n3oLCeiXpPEuUGuw', 1791581885919, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.009381,"duration_s":0.000718,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 10, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', true, 'default', '{"input":1000000000,"output":4000000000}', 9, 10, NULL),
	(6, 'req_01a1229a15eb96fcdb8bf5982b97', 'chatcmpl-IBUXLiiQ7qV6JVVEWz5sn8nOzMMko', 1791581885930, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.006836,"duration_s":0.000872,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 7, 8, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', true, 'default', '{"input":1000000000,"output":4000000000}', 7, 8, '{"start_ms":7,"slot_ms":10,"counts":[17]}'),
	(7, 'req_01a1229a15f798d4ee76b0bb18aa', 'chatcmpl-lmwVVdOaOHbddc3CyUcECIBLF1kCR', 1791581885942, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.009843,"duration_s":0.000518,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 10, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 10, 10, NULL),
	(8, 'req_01a1229a1601616db263b4d30191', 'chatcmpl-hEoXACXEnaWKm8xlWmiyfJcSgpIPt', 1791581885954, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.003905,"duration_s":0.000877,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 4, 5, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 4, 5, '{"start_ms":4,"slot_ms":10,"counts":[17]}'),
	(9, 'req_01a1229a1613828ef810663a50bc', NULL, 1791581885970, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, NULL, NULL, NULL, NULL, NULL),
	(10, 'req_01a1229a160bf8fedd3c7f953edd', 'chatcmpl-NN2EB0PSGXP6P9Eg1xSZMGA7QqERG', 1791581885962, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","start_s":0.007573,"duration_s":0.00072,"resends":0,"status":200}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', '["max_tokens_set"]', 16540000, 15000, '2026-11-15+config', 8, 8, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 8, 10, '{"start_ms":8,"slot_ms":10,"counts":[3]}'),
	(11, 'req_01a1229a16140ed0ecc5579f1384', 'chatcmpl-1TvRASPii0eDTL2NJmP6A3M9J58ZH', 1791581885972, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.022796,"duration_s":0.000697,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 24, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 23, 24, NULL),
	(12, 'req_01a1229a162f3de96dd7f456fcec', 'chatcmpl-O4WBkUgTGZzizdC6CGNTbWjW2EnEI', 1791581885999, 'default', 'key_0y07iQ8heC1Tf6hn2', 'revoked', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.000601,"duration_s":0.002552,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 3, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1229a15036c001345bec8', false, 'default', '{"input":1000000000,"output":4000000000}', 1, 3, NULL),
	(13, 'req_01a1f098961cc96d66c2238543ba', 'chatcmpl-2AwK6DAAgj82syrotSCpArkkuGsex', 1795037894171, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.004068,"duration_s":0.004348,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 8, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 4, 9, NULL),
	(14, 'req_01a1f0989625f4f5830a05b97fbf', 'chatcmpl-TWnLIKDEeM7AMBKfCegpjWGPUhdsZ', 1795037894181, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.003144,"duration_s":0.008047,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 5, 11, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 3, 11, '{"start_ms":10,"slot_ms":10,"counts":[17]}'),
	(15, 'req_01a1f0989631805ad48af3e40e1d', 'chatcmpl-sJ8U2vwgbDyoHGYaxRvvI1ook0wt3', 1795037894194, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.050335,"duration_s":0.00156,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 52, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 50, 52, NULL),
	(16, 'req_01a1f0989666df9b47f5130b0f7a', 'chatcmpl-9FXCF7p8HlufBWJhrkASjgStVnS1m', 1795037894245, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.014252,"duration_s":0.004809,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 15, 19, 20, 1, 2, 2, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 14, 19, '{"start_ms":15,"slot_ms":10,"counts":[17]}'),
	(17, 'req_01a1f098967914201ebdfb0fee9c', 'chatcmpl-XunxkQv1LNZxXUBxQ071BX8bl7sWz', 1795037894264, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.011691,"duration_s":0.000636,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 12, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', true, 'default', '{"input":1000000000,"output":4000000000}', 12, 12, NULL),
	(18, 'req_01a1f098968603f7e0860d96d326', 'chatcmpl-p7wrG4fF4nfsKoi2KmOIin2tubOVl', 1795037894277, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.010595,"duration_s":0.000912,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 11, 12, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', true, 'default', '{"input":1000000000,"output":4000000000}', 11, 12, '{"start_ms":11,"slot_ms":10,"counts":[17]}'),
	(19, 'req_01a1f09896925cff49c9beb96b90', 'chatcmpl-i5clunz7hJAZJe2rHCcm6Mcx6vqOB', 1795037894289, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.019647,"duration_s":0.000696,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 20, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 20, 20, NULL),
	(20, 'req_01a1f09896a746a7290865ba10df', 'chatcmpl-Ainm8J6yzGdAsgBPhBAFKW4wkgpeu', 1795037894310, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.004747,"duration_s":0.000837,"resends":0,"status":200}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16553000, 67000, '2026-11-15+config', 5, 6, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 5, 6, '{"start_ms":5,"slot_ms":10,"counts":[17]}'),
	(21, 'req_01a1f09896b656690e96151f169a', NULL, 1795037894326, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, NULL, NULL, NULL, NULL, NULL),
	(22, 'req_01a1f09896af33a33ee001fc905c', 'chatcmpl-3piSHLYRwQ1GzDvwRcRzkJ5LgVaRV', 1795037894318, 'default', 'key_0TGSkKNw87sNqRyAy', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","start_s":0.004923,"duration_s":0.001437,"resends":0,"status":200}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', '["max_tokens_set"]', 16540000, 15000, '2026-11-15+config', 5, 6, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 5, 13, '{"start_ms":5,"slot_ms":10,"counts":[3]}'),
	(23, 'req_01a1f09896bbe5f662daad01e1f6', 'chatcmpl-UA5uJnMetd275YDSo3I0p7SuBqF5a', 1795037894330, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"start_s":0.019816,"duration_s":0.001247,"resends":0,"status":200}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', '["max_tokens_set"]', 16522000, 67000, '2026-11-15+config', NULL, 21, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f09895afbc2cab71cbe7', false, 'default', '{"input":1000000000,"output":4000000000}', 20, 21, NULL);
INSERT INTO public.secrets VALUES
	('admin', '\xe95a8e3a56a2ced7d959773c13214006f420215d9af1fc4c1f65a452f8edc3d6', 1791581885664);
INSERT INTO public.usage_days VALUES
	(20735, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'default', 'key_0y07iQ8heC1Tf6hn2', 'fast', 'sim', 1, 0, 3, 0, 16, 0, 67000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20735, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(20775, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_hours VALUES
	(497661, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'default', 'key_0y07iQ8heC1Tf6hn2', 'fast', 'sim', 1, 0, 3, 0, 16, 0, 67000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(497661, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(498621, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_minutes VALUES
	(29917298, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917298, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917298, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917298, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(29917298, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.usage_quarters VALUES
	(1994486, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'default', 'key_0TGSkKNw87sNqRyAy', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'ws_0VR5FzrD5OwlNSgFo', 'key_080JG8JuAxG2MDClX', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'default', 'key_0TGSkKNw87sNqRyAy', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	(1994486, 'ws_0VR5FzrD5OwlNSgFo', 'key_11DRfhnUxYHs1wW2w', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.workspaces VALUES
	('default', 'default', false, 1791581877640, 1),
	('ws_0VR5FzrD5OwlNSgFo', 'acme', true, 1791581877147, 10);
SELECT pg_catalog.setval('public.audit_seq_seq', 1, false);
SELECT pg_catalog.setval('public.ledger_seq_seq', 46, true);
SELECT pg_catalog.setval('public.requests_seq_seq', 23, true);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkey PRIMARY KEY (version_num);
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
ALTER TABLE ONLY public.open_requests
    ADD CONSTRAINT open_requests_pkey PRIMARY KEY (request_id);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_request_id_key UNIQUE (request_id);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (digest);
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
CREATE INDEX ix_accounts_key_id ON public.accounts USING btree (key_id);
CREATE INDEX ix_accounts_workspace_id ON public.accounts USING btree (workspace_id);
CREATE INDEX ix_contents_at_ms ON public.contents USING btree (at_ms);
CREATE INDEX ix_contents_key_id ON public.contents USING btree (key_id);
CREATE INDEX ix_idempotency_until_ms ON public.idempotency USING btree (until_ms);
CREATE INDEX ix_keys_version ON public.keys USING btree (version);
CREATE INDEX ix_keys_workspace_id ON public.keys USING btree (workspace_id);
CREATE INDEX ix_workspaces_version ON public.workspaces USING btree (version);
CREATE INDEX ledger_of_workspace ON public.ledger USING btree (workspace_id, seq);
CREATE INDEX open_requests_cancelled ON public.open_requests USING btree (instance) WHERE (cancel_ms IS NOT NULL);
CREATE INDEX requests_by_time ON public.requests USING btree (at_ms, seq, workspace_id, key_id, model, target, verdict, dialect, status, error, stream, cost);
CREATE INDEX requests_of_completion ON public.requests USING btree (completion_id, seq);
CREATE INDEX requests_of_key ON public.requests USING btree (key_id, at_ms, seq, workspace_id, model, target, verdict, dialect, status, error, stream, cost);
CREATE INDEX requests_of_workspace ON public.requests USING btree (workspace_id, at_ms, seq, key_id, model, target, verdict, dialect, status, error, stream, cost);
CREATE INDEX usage_of_key ON public.usage_hours USING btree (key_id, hour);
