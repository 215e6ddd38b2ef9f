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
    version bigint NOT NULL
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
    idempotency bytea
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
    has_content boolean NOT NULL
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
    used_ms bigint NOT NULL
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
    unpriced bigint NOT NULL
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
	('key:key_193nu752nzyzb7yaL:2026-10-09', 'default', 'key_193nu752nzyzb7yaL', 0, 149000, 0),
	('key:key_193nu752nzyzb7yaL:2026-11-18', 'default', 'key_193nu752nzyzb7yaL', 0, 149000, 4099000),
	('ws:default', 'default', NULL, 0, 633000, 4099000),
	('ws:ws_0qLnSWOySHctFChtn', 'ws_0qLnSWOySHctFChtn', NULL, 35000000000, 670000, 4099000);
INSERT INTO public.alembic_version VALUES
	('0001');
INSERT INTO public.audit VALUES
	(1, 1791581749555, 'system', 'default', 'workspace.create', 'default', '{"name":"default","prepaid":false}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x769ad65d24a5e28a161f7614a250eaf5b747ae38ac93c0bce1763beb11609287'),
	(2, 1791581748982, 'cli', 'ws_0qLnSWOySHctFChtn', 'workspace.create', 'ws_0qLnSWOySHctFChtn', '{"name":"acme","prepaid":true}', '\x769ad65d24a5e28a161f7614a250eaf5b747ae38ac93c0bce1763beb11609287', '\x0a7baba293518c5abf1a8c6775986f25822f8c83f96a61ac7e757ba08e5128aa'),
	(3, 1791581750379, 'cli', 'ws_0qLnSWOySHctFChtn', 'credit.add', 'ws_0qLnSWOySHctFChtn', '{"amount_nano":25000000000,"granted_nano":25000000000,"note":"first"}', '\x0a7baba293518c5abf1a8c6775986f25822f8c83f96a61ac7e757ba08e5128aa', '\x7eb081628775a7d47d5f6545e72ad36294b3d7a7bd7661bd0ac29146e27cb955'),
	(4, 1791581751121, 'cli', 'default', 'key.create', 'key_193nu752nzyzb7yaL', '{"budget_nano":5000000000,"budget_period":"day","last4":"Kj2j","name":"daily"}', '\x7eb081628775a7d47d5f6545e72ad36294b3d7a7bd7661bd0ac29146e27cb955', '\x6f58f02e139eb47525e56005ca866abf1f24bf6c15c2a4a20a6bea0f8f58825e'),
	(5, 1791581752324, 'cli', 'ws_0qLnSWOySHctFChtn', 'key.create', 'key_0a6njl2feYfcSvZSY', '{"last4":"5DoD","log_content":true,"name":"content"}', '\x6f58f02e139eb47525e56005ca866abf1f24bf6c15c2a4a20a6bea0f8f58825e', '\x7fbad575c7c4fab8df6a5b6052fda8480b942f423a57ae316269ee9b016e6e59'),
	(6, 1791581753402, 'cli', 'ws_0qLnSWOySHctFChtn', 'key.create', 'key_112567brNFxGhEVEj', '{"last4":"Re1U","name":"prepaid","rpm":600}', '\x7fbad575c7c4fab8df6a5b6052fda8480b942f423a57ae316269ee9b016e6e59', '\xa8588dbfad873cf762d34de08bb3a287ee457b58cb142d704f2aa33a6e24d9b7'),
	(7, 1791581754352, 'cli', 'default', 'key.create', 'key_0hZnQNBUUu7xNWZo5', '{"last4":"LF9h","name":"revoked"}', '\xa8588dbfad873cf762d34de08bb3a287ee457b58cb142d704f2aa33a6e24d9b7', '\xde0fa08a1bf3bc36c3327ce4699d9c0c9c3aa494508b1ca54da8df6278f53dac'),
	(8, 1791581756273, 'system', NULL, 'secret.create', 'admin', '{}', '\xde0fa08a1bf3bc36c3327ce4699d9c0c9c3aa494508b1ca54da8df6278f53dac', '\xcf181481805511caebf0a070f4f619726995a8693b4e8305575a43983c1aa303'),
	(9, 1791581756320, 'system', 'default', 'key.create', 'file:file', '{"last4":"cdef","name":"file"}', '\xcf181481805511caebf0a070f4f619726995a8693b4e8305575a43983c1aa303', '\xcce4a4191cdbeda959040241f07534aaff2d5fabab05bd12a8b4efb1fa8921f2'),
	(10, 1795037757212, 'cli', 'default', 'key.revoke', 'key_0hZnQNBUUu7xNWZo5', '{"last4":"LF9h","name":"revoked"}', '\xcce4a4191cdbeda959040241f07534aaff2d5fabab05bd12a8b4efb1fa8921f2', '\xce339d217ab43fe7702193ab72a37bb0203e08caf7159808e405d5bfaa37e339'),
	(11, 1795037757719, 'cli', 'ws_0qLnSWOySHctFChtn', 'credit.add', 'ws_0qLnSWOySHctFChtn', '{"amount_nano":10000000000,"granted_nano":35000000000,"note":"second"}', '\xce339d217ab43fe7702193ab72a37bb0203e08caf7159808e405d5bfaa37e339', '\xc17cc2a6f756b5a69218cc7626c4479a7d37dfd26cb09164354832dcd8f8ce30');
INSERT INTO public.contents VALUES
	('req_01a122981c91797b3b6acec2bf25', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 1791581756560, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d525d4fdc3010fc2bae9faf8880f8385e79a16aa51678007489229fbdb9b875ece05d7387d0fd77d60e7080dabe25b33bb3b3b35e2ce633f9544b6b6a79564bdd2bd2c3e8be6e0eaa9bef07f3749e7eaaf5edafbbe5d5f1e5fdf230fd70979b8b5ace6a1996bf41d31b6b4f07e601d9e04b5947500459b53a995747a7d5c9d131c34330e00aa907e7c2d4da07ab01195d6427dec086bff7733720aa15f01f17627050980ad122294f133b78023f19b9c89a5fc437a106413d08b443728a4214a113d7c4968635d87826e001e2a35887687265b01e8445813ada914def15e1085d4295cdfae41c03cafb402a6f58bc365bc65c588d312c71d7d5596fb16f7916e628d81552186bb96d6433cb69734fda6dc5ec61a496c21f28b28765a5d728777895d3239eefde61f3d92781d60029eb70d2d64af76076fd3952958c0defa0eddfe67d949956b17ef57fa50c690d39c0768c60acfeb8c17ec9343f9a7f356cb31984f8c0cfa1250bb1c467a053c94dc7c64724185ace7805718cf6e5eeddd8be9d9a93964df30c97ff0059', '\x789c7d525d4fc24010fc2b679f91580820bcfa82d144d107359434c7754b4fafb7f56ecb470cffddbd8220467debcdceecce4c3a9d0e5bd14712e92c894649a40a49aaacccf9ba133fdd7486f5557d2757cff72ff387fee47ddead6fcd643d4ea25612e1fc15141d546d85ac03d2689bb1722009c2d678308c7b97f1a0d767b8c40c4c232ac0186ca87ee309ca34d77601ae72daeeb6e655ea75591b49e8763c704bad20250dae616490cbdad0ee5e813cf38c4f431c9bc19abf2fc249f05e2e805f3c7068a0d14aefb52769f76ab404fbbbe360ec4c5c0b590a2a401c4c08ccc52371ae7205da8d042cc16dc40a5d1626a5b620b4175e395d71f276126d79b3c145e5701e8cd9da184638a7f645ca7b7ce88a2f7ac28ad9331ed647ab2c2b2b4a09dfc00679b7f1f955f2118f43af8424cd376cf81b39cd80a4367e5f4563804b3fca425db2ce34fe8094821029ad1c645a9d9e0f0407e15ff88b106a380973ea434955b0f45f13dbed369acd3e01183ef1e6', false),
	('req_01a122981c9bfd56c1eff1305286', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 1791581756570, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced96df6bdb3010c7ff95cecf5ea8e9b2a679ec52dad1b13e0c065b1c8c2a9f63adb2ce48e76465e47fdfc94e5b7774a3503d0caa37f1bddf1f1db696cb6c9a26a520313ff89527aacc93799ec85a906c5afdb63e9b1d5d9e9fdbd377f46db139fc0e8b4f971f247ebd32db8b599ea47982d73f40d27dd44422c7012934135977e6a67792160481cf9d1d9f64d359763c7dcf728325e83eb406adb1777560374a42410a6c6f2aa1129da6c178eb089aa252660db6b5ca0c85abb670aae9b420b443bd1a398763e3d20f654af8c9e7c3d467d324f8ccb2450d7db8704e391266a821d110ec13f78285aa73c2f7693aad77ac685cb716afdd5e62853b52ae2e784c87e6ce73c5068e5cc39d909bdc24abf4f5221fb3bd18ea479e8178be892c83b13cf818618683299a48331c4daa21e20c8773141fa186828a55a4198ee617e2169b2da8b8a3e1a8ce23cb701b0a1bb0b7116838a05bb465e4197f48ff27cd4699f8060dc853b94833e08b5e5ad5f62d46a681984e22cb17b07c1e3a2e49d832e8d78a6f3c370fc8b89a960ac21b30de7ee4bdef5b7ed033df1f21093dd24ed23f1214259050daed775bc81aca077f7f5da22b158ea4dd53f51ea719ee8e47fc77262f4909fe9b54b4164a251f4fe01d2cf8cbf99bc36ef7c4122c17579fcf5683befa0dbe4fcc0b', '\x789cedd84f4fc2301400f0af823b236151fec851216030723031d16d594af7c6aa5dbbb46f20317c77bb0dcd8e4a0f1ee8ad79edeb7bfda5c99a05813fe87a094132e97c861e4b426f127a342348f3825f66b3f1d5723e57b7d7f832ddf65f61fab0bca3f27925768b71e875434faedf80e24f568f4a9307c8a4e8d1ac14eff522aa8020547bfba31b7f30f64783a109e732015ea766c0b9ac976a505b46214606aa9e4a202525c76672af11f238656203aa504c3485d322d62c2f3941a99a7a99347b683319548712097c9871bf5bedc69198b1092bc9a14e275a338d443435a81408c78deb8082b4d4a4ea53949c1f4c84cb4da1e45a1f4326623a623a8bcd31b514df2ba34328427196b66dc44553ffcf705ed43ddfcbd906bc7078a7e375ee9d9e851ec91d9f051f66e0fc2cfc5af94ef16445993a3e0bbe27342de63b60ee165a304e1c9ec51d842da8bd13b410dc49953840f715f92fbe9c09f716b40164daf1d93ca5a96245dda2433c15b1772adef02cf17e67654aa22c8c6cfb7f69305d3dcea2c62ffa020875b4cc', false),
	('req_01a1f096881916258804eff91590', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 1795037759512, '\x789cab56ca4d2d2e4e4c4f2d56b25288ae562acacf4905b2944a8b538b9474149492f3f34a52f34a4042c189950a19a93939f97a4ab5b140a9dcfc94d41c90445a627189522d0084391797', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789c7d52c14ee33010fd156fce05b5aa4a284724c456da035a2438345164ec4963d6f1449e0905adfaef3b76762995166ec99b796fdebcf176bb9c15bfabc2d9aab8aa0ad36936fde0cf1e6e787f17ae1fd777b70ff77e7c7ebd2c578f3f363f378b122fab625615f8f40c86df59e7068507ec30e4b289a01992eaa25cafe6cbb25cad05eed182cfa40ebcc7a9b543678004dd2627c1c2ab7ccf533710e91dc89f14227ac84c4de48875e0898d81214c46be27cd6f6aa374afb80345ae1fbd668c0a5b75cf62a9df838b570a5e20bea93d469b2abd0ba01c2932d10d62fa3c0b476847d2c96c18bd17408780acd386d96b7d10cce36e88f844c7aed605475d23b3284521ae8871a88a435dd4b394b6f48cc7ad84dd0fdc30fe822cbbcc2bfd8bf2882f2ea4c032df7fc052a227028d05d6ced3a46db4e9c01efb53a47ab40e3f4087ffcd3b9599567161f7b552828c8114603344b0ce9c6e30cf99a647f359c3219921882ff21c1a7610737c165a3dfae9d8f4460c7d2319ef200ed1fdbd7b3b34efa796a48bbafe037642ffd8', '\x789c7d524d4fc24010fd2b6bcf4820040b1c4d8c92782092c0819266d94ee9e276a7d99df211c37f77b62088516fddf731f3e6a58b45af157d2491ce92689444aa90a4cacadccf9e6837b18ff3e1e4793635f5663f88fbf3d7f1dbb81be320895a4984ab0d28bab8da0ad907a4d136b4722009c2d46e3cec777a71dc1f325c6206a63115600c36527ff004659a6bbb0657396d4f53f32af5baac8d2474271db8ad56909206d72832c8656de8b4af40e63ce38b708ecd60cfdf9db012bc976be017130e0d345ee9bdf624edd98d96e0bcf72504bb1363214b4105884b0881b99812df55ee40bb91802db883d8a1cb02536a0b427be195d3155fde4ea2234f36b8ae1cae42305b1bc308dfa97d91f21c1fbae28d9eb062f592c9fa1a956d654529e13bd860ef3539bf4abee2dd072608499a6fd8f037719a01496dfcb98a2600977eb585ba649d69fc012905e1a4b472906975bb3e081c847fe12f41a8e1e698db1c4aaa82adff86381e8fd172f9091115f17a', false),
	('req_01a1f096881cb1c16d0e31e7ab1b', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 1795037759515, '\x789c2d8c410a80300c04bf5272161fe0373c8a87a0ab1eda049af420a57fb7056fcbccb09512ccf886d112b64a5923faa262c834053a541ce203adfc860731ea4c6def2ae98938c4c5e6a335cfe0d489e782e9ffe89e45a87df12c20f7', '\x789c15c9c10980400c04c056d6062cc00af46d05c15b317031928b1e762fce7766d6ea031688210fa2a9dd55d203be63cda058a7c6043e8c17dda3fc637a12dad0b6d02b59c60f9db719cd', '\x789ced965b6fda3014c7bf0acb3343455561e595a25d34ed221e098a5cfb84b8383e997dd2964d7cf71d27b405a99d26cd0f93ea37eb7fee3f1f255eadc69361a60489d9e0579e699567b33c9395205937e6edeefe673bf986bb4fdb1ff3f9cda6f9bc6c17dfdf5f2d96dec9799e0df30caf6f40d263d44822c70169b42359b576db3949078220e41e4f2f2fcecea7d38b4b966b5460bad00a8cc1ced583bbd5120ad2e03a938252b4867ae3ce13d445a9ed065ce3b4ed0b974de175dd1a41e8fa7a15720ecfc65518ca2ab8e7f3d930643324f8ccb243035db8f05e7b12b6af21d1121c12778283b2f522f4695b63f6ac18dc340eaffd4162853bd2be2a784c8ff6c173cd068edcc08390dbdc66ebe1eb457eccf6435f3f0acf69e299bd492ca3b11c7c4c30e3c11475a2198f26559070c6c379149fa0c6828a65a2198fe692b8c5fa0e74dad17854678965bc0d855b70bb4840df25a0d9e00e9d4a3cffc31f52a2c9346b6d63bd41134fe6a97da219f1452f9d6eba1613d3484c4789e53fb0fc3b745c92b061d0af15dff1dc3c20e3aa1b2a08b76083fd3c783fb6fca48f276c2024618eb4d0f349824201096dfc61b785ac403df987eb12add27824ed9fab779aa6bf3b1ef1cf99822425846f52d138505a9e4e101c1c84cb79c961bf7f660956575fbf2cd6bdbefe0de6b9e4f1', '\x789cedd8cd6f82301400f07fc57166666651a65735fbc8b28f7804436a7948b5f4b1b6a86cf17f5f01b7709c70d8c1de9ad7bebed75f9ad0e0fb8391eb44449349ef2b7058143893c0a109d134cdf87571f8cc476f583c6d3fa6d3cd3a7b5ee4f3f7fbd97ca1249d068e1b38b8da00d5bf597d8a260f3443d1a7492eb6d5222a816828f71e78e3e1cdade70dc7269c6204bc4a4d8073ac962a903b4621d40c643515414c72aeebc9426948c3988935c84c3251178eb350b134e744a3aceb2568f65066d22f0f25223898f18d5beec63531631396c8a14a274a31a589a86b50141a4e1b57010971ae48d9a7c8393f9a08c7752671a54e2113311d319584e6980ac5cfcae5311081b848db26e2435dff6c3867e9fa03ef422f6713f0cae2b5c7eb3d5abd0e7a24b57c1df87402d6af835f23df2ab656c4d8f275e05b68d362ba07666f6107c689c5eb70076107b2682b7867059dde1e656401ffe52b62f90c5fca44ebb7a00534804c59be2e4f692a5956b56811db22f62dde39787fb33225356646b6f9bfd49fbdbecc97b5dff21b0071cc5d', false);
INSERT INTO public.counters VALUES
	('changes', 10),
	('audit', 11);
INSERT INTO public.idempotency VALUES
	('key_112567brNFxGhEVEj', '\xe6f8a7f534b6730123868adf795ad7262a7b46d02dcf2f4e1f056dd9754455c8', '\x076d171a65f8dca172cee516adb11a0b50e1685f8b7ecd3450dfe29f6a3e450e', 'req_01a1f0968853f7a5e80291137884', true, 1795124159571);
INSERT INTO public.instances VALUES
	('01a122981b93b9836ff6c63f', 'vm:12590', 1795037756315, 1795037756315, 1795037756652),
	('01a1f096874c144078f1fc46', 'vm:12606', 1795037759325, 1795037760427, NULL);
INSERT INTO public.keys VALUES
	('key_193nu752nzyzb7yaL', 'default', 'daily', 'store', '\x0d4c146552a2d236636b2e0895ce6b5cd38dbf510393e78993581742ad1aeb20', 'Kj2j', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, 5000000000, 'day', false, NULL, 1791581751121, NULL, NULL, NULL, 4),
	('key_0a6njl2feYfcSvZSY', 'ws_0qLnSWOySHctFChtn', 'content', 'store', '\xa60b8519d4fb60cdfc5d11075a0d357e6be47c05ac42825507fb983227fa0dfe', '5DoD', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, 1791581752324, NULL, NULL, NULL, 5),
	('key_112567brNFxGhEVEj', 'ws_0qLnSWOySHctFChtn', 'prepaid', 'store', '\x28f9c9ff2d903d16d0aebd949ef3b6e8857ac0224c1b754cbbd0a5e9c32a6fd3', 'Re1U', '["chat","models"]', NULL, NULL, 600, NULL, NULL, NULL, NULL, false, NULL, 1791581753402, NULL, NULL, NULL, 6),
	('file:file', 'default', 'file', 'file', '\x3cc78794f7688a85ecccb9a3bbcd099d9bf042f4078285344e1dac6cd4bb12a0', 'cdef', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791581756320, NULL, NULL, NULL, 8),
	('key_0hZnQNBUUu7xNWZo5', 'default', 'revoked', 'store', '\x2bee4d70e36aac3d01cc25b8b19dbf1777367ce4f9918e08f323969de80f56c5', 'LF9h', '["chat","models"]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1791581754352, 1795037757212, NULL, NULL, 9);
INSERT INTO public.ledger VALUES
	(1, 1791581750379, 'credit', 'ws_0qLnSWOySHctFChtn', NULL, NULL, 25000000000, NULL, 'first'),
	(2, 1791581756459, 'hold', 'default', 'file:file', 'req_01a122981c2c86a9ba972bf500bf', -4099000, NULL, NULL),
	(3, 1791581756468, 'settle', 'default', 'file:file', 'req_01a122981c2c86a9ba972bf500bf', 4032000, 67000, NULL),
	(4, 1791581756469, 'hold', 'default', 'file:file', 'req_01a122981c36b662cf684f23bec4', -4099000, NULL, NULL),
	(5, 1791581756478, 'settle', 'default', 'file:file', 'req_01a122981c36b662cf684f23bec4', 4032000, 67000, NULL),
	(6, 1791581756481, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981c411c9e99924f845e7a', -4099000, NULL, NULL),
	(7, 1791581756544, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981c411c9e99924f845e7a', 4032000, 67000, NULL),
	(8, 1791581756543, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981c80bc62e5cd7c67e498', -4099000, NULL, NULL),
	(9, 1791581756560, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981c80bc62e5cd7c67e498', 4032000, 67000, NULL),
	(10, 1791581756560, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a122981c91797b3b6acec2bf25', -4099000, NULL, NULL),
	(11, 1791581756569, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a122981c91797b3b6acec2bf25', 4032000, 67000, NULL),
	(12, 1791581756570, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a122981c9bfd56c1eff1305286', -4099000, NULL, NULL),
	(13, 1791581756586, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a122981c9bfd56c1eff1305286', 4032000, 67000, NULL),
	(14, 1791581756588, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cac4c344279fe1e529d', -4099000, NULL, NULL),
	(15, 1791581756602, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cac4c344279fe1e529d', 4032000, 67000, NULL),
	(16, 1791581756604, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cbc8e9a21beaafe2956', -4099000, NULL, NULL),
	(17, 1791581756613, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cbc8e9a21beaafe2956', 4032000, 67000, NULL),
	(18, 1791581756612, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981cc570615c426a604ccd', -4099000, NULL, NULL),
	(19, 1791581756622, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a122981cc570615c426a604ccd', 4084000, 15000, NULL),
	(20, 1791581756626, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cd227fa0b7b78c83023', -4099000, NULL, NULL),
	(21, 1791581756638, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a122981cd227fa0b7b78c83023', 4032000, 67000, NULL),
	(22, 1791581756636, 'hold', 'default', 'key_0hZnQNBUUu7xNWZo5', 'req_01a122981cdda5f14dd10428824f', -4099000, NULL, NULL),
	(23, 1791581756640, 'settle', 'default', 'key_0hZnQNBUUu7xNWZo5', 'req_01a122981cdda5f14dd10428824f', 4032000, 67000, NULL),
	(24, 1795037757719, 'credit', 'ws_0qLnSWOySHctFChtn', NULL, NULL, 10000000000, NULL, 'second'),
	(25, 1795037759421, 'hold', 'default', 'file:file', 'req_01a1f09687bef5dc3d51ea801d17', -4099000, NULL, NULL),
	(26, 1795037759434, 'settle', 'default', 'file:file', 'req_01a1f09687bef5dc3d51ea801d17', 4032000, 67000, NULL),
	(27, 1795037759435, 'hold', 'default', 'file:file', 'req_01a1f09687cb5ecd6f3f5dc2f0b9', -4099000, NULL, NULL),
	(28, 1795037759443, 'settle', 'default', 'file:file', 'req_01a1f09687cb5ecd6f3f5dc2f0b9', 4032000, 67000, NULL),
	(29, 1795037759446, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f09687d73a8a54e2d4a3b368', -4099000, NULL, NULL),
	(30, 1795037759501, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f09687d73a8a54e2d4a3b368', 4032000, 67000, NULL),
	(31, 1795037759506, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f0968813cae57889d40893c0', -4099000, NULL, NULL),
	(32, 1795037759512, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f0968813cae57889d40893c0', 4032000, 67000, NULL),
	(33, 1795037759512, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a1f096881916258804eff91590', -4099000, NULL, NULL),
	(34, 1795037759516, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a1f096881916258804eff91590', 4032000, 67000, NULL),
	(35, 1795037759515, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a1f096881cb1c16d0e31e7ab1b', -4099000, NULL, NULL),
	(36, 1795037759533, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'req_01a1f096881cb1c16d0e31e7ab1b', 4032000, 67000, NULL),
	(37, 1795037759533, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f096882e779263d98837ebae', -4099000, NULL, NULL),
	(38, 1795037759543, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f096882e779263d98837ebae', 4032000, 67000, NULL),
	(39, 1795037759546, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f096883b607987972d2a32f0', -4099000, NULL, NULL),
	(40, 1795037759553, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f096883b607987972d2a32f0', 4032000, 67000, NULL),
	(41, 1795037759558, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f09688479254cb6d87ebb0bd', -4099000, NULL, NULL),
	(42, 1795037759562, 'settle', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f09688479254cb6d87ebb0bd', 4084000, 15000, NULL),
	(43, 1795037759571, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f0968853f7a5e80291137884', -4099000, NULL, NULL),
	(44, 1795037759586, 'settle', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f0968853f7a5e80291137884', 4032000, 67000, NULL),
	(45, 1795037759590, 'hold', 'default', 'key_193nu752nzyzb7yaL', 'req_01a1f09688660a30e1d35bb6ac1e', -4099000, NULL, NULL),
	(46, 1795037759998, 'hold', 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'req_01a1f09689ffa5d538b44a2ce666', -4099000, NULL, NULL);
INSERT INTO public.open_requests VALUES
	('req_01a1f09689ffa5d538b44a2ce666', '01a1f096874c144078f1fc46', 1795037759998, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 4099000, NULL, '{"version":"2026-11-15+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 74, 1795037762434, NULL, NULL),
	('req_01a1f09688660a30e1d35bb6ac1e', '01a1f096874c144078f1fc46', 1795037759590, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'long', 'sim/lorem?words=400&pace_ms=50', true, 4099000, 'key:key_193nu752nzyzb7yaL:2026-11-18', '{"version":"2026-11-15+config","rates":{"sim/lorem?words=400&pace_ms=50":{"input":1000000000,"output":4000000000}}}', 3, 83, 1795037762434, NULL, NULL);
INSERT INTO public.requests VALUES
	(1, 'req_01a122981c2c86a9ba972bf500bf', 'chatcmpl-FC61SXNREQAcxaEKVSqNl9wOW06Po', 1791581756459, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002264,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 9, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(2, 'req_01a122981c36b662cf684f23bec4', 'chatcmpl-ENP6DtbaTS9Zf202qM0HKP2WhZX02', 1791581756469, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.006638,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 2, 9, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(3, 'req_01a122981c411c9e99924f845e7a', 'chatcmpl-CKH7OJH7ffIYA5DjWFptwRuxLIVwZ', 1791581756481, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002196,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 63, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(4, 'req_01a122981c80bc62e5cd7c67e498', 'chatcmpl-H9yPeFxxbymf3JfQIrgoI8GR7BnpJ', 1791581756543, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.007341,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 16, 17, 20, 1, 6, 6, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(5, 'req_01a122981c91797b3b6acec2bf25', 'chatcmpl-x21WK29uCuOawXPYbR6Qqb3uLlQxH', 1791581756560, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002041,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 9, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', true),
	(6, 'req_01a122981c9bfd56c1eff1305286', 'chatcmpl-hE83KGGrB4tYDv0ZeDLKCcoVOnwH8', 1791581756570, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.0021,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 15, 16, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', true),
	(7, 'req_01a122981cac4c344279fe1e529d', 'chatcmpl-sicxDxE9yShv851Je33HexsKLAjQC', 1791581756588, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000712,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 14, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(8, 'req_01a122981cbc8e9a21beaafe2956', 'chatcmpl-hMI1gyPRpO5eDtIDsdOLznbvHOqve', 1791581756604, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002354,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 7, 9, 20, 1, 1, 1, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(9, 'req_01a122981cc570615c426a604ccd', 'chatcmpl-ekufK3lL4mK5z35WL9nN9vLORMt8h', 1791581756612, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","duration_s":0.002298,"resends":0}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', NULL, 4099000, 15000, '2026-11-15+config', 9, 10, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(10, 'req_01a122981cd198c4cd8f553460f9', NULL, 1791581756624, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(11, 'req_01a122981cd227fa0b7b78c83023', 'chatcmpl-XY6C8kbnRwqqWzMUDI7tskFifSCEk', 1791581756626, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000562,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 12, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(12, 'req_01a122981cdda5f14dd10428824f', 'chatcmpl-heKAxDSpf9bC7VCGRqWMYELG4tgXi', 1791581756636, 'default', 'key_0hZnQNBUUu7xNWZo5', 'revoked', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002387,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 4, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a122981b93b9836ff6c63f', false),
	(13, 'req_01a1f09687bef5dc3d51ea801d17', 'chatcmpl-tzQZYEsvwOdwGf8LhJ3nOKMih4OyC', 1795037759421, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.00318,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 13, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(14, 'req_01a1f09687cb5ecd6f3f5dc2f0b9', 'chatcmpl-ZlsRSIMTF2VhejckyIaPoxjB7KZZG', 1795037759435, 'default', 'file:file', 'file', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.007248,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 1, 8, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(15, 'req_01a1f09687d73a8a54e2d4a3b368', 'chatcmpl-ylnGAAI6FpOGzzS7EOjt8On3F5eZl', 1795037759446, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000684,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 55, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(16, 'req_01a1f0968813cae57889d40893c0', 'chatcmpl-n84bugyTGP6C8t1z8UmrpwaW8eXjV', 1795037759506, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.00085,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 5, 6, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(17, 'req_01a1f096881916258804eff91590', 'chatcmpl-VEtwPnBW9PGVSlujx875WLIRI17o8', 1795037759512, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000771,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 4, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', true),
	(18, 'req_01a1f096881cb1c16d0e31e7ab1b', 'chatcmpl-yxzu6PoyJkqCCjgpLSuEQGDESsrcC', 1795037759515, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'content', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.002129,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 16, 18, 20, 0, 1, 1, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', true),
	(19, 'req_01a1f096882e779263d98837ebae', 'chatcmpl-LTxmg5VJLN0jaNnCMthIyLP2neprY', 1795037759533, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000695,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 10, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(20, 'req_01a1f096883b607987972d2a32f0', 'chatcmpl-TguZ8FyIgqN6VaWY7WVmeIA43UjHu', 1795037759546, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.00092,"resends":0}]', true, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', 6, 7, 20, 0, 0, 0, 105, 4970, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(21, 'req_01a1f09688479254cb6d87ebb0bd', 'chatcmpl-hyTcfRxbg0i0YboHRc3U2S5qeSqCP', 1795037759558, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'broken', 'sim/cut', '[{"target":"sim/cut","error":"upstream_stream_truncated","duration_s":0.000724,"resends":0}]', true, 200, 'truncated', 'upstream_stream_truncated', NULL, 3, 3, '{"input_uncached":3,"output":3}', 'estimate', NULL, 4099000, 15000, '2026-11-15+config', 4, 4, 3, 0, 0, 0, 92, 1014, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(22, 'req_01a1f0968853323bbaabdf41a5cd', NULL, 1795037759570, 'default', 'key_193nu752nzyzb7yaL', 'daily', 'openai', 'nonesuch', NULL, '[]', false, 404, 'rejected', 'model_not_found', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 78, 0, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false),
	(23, 'req_01a1f0968853f7a5e80291137884', 'chatcmpl-0y8qz8Z046kQMXp0jKetyHAg9RTSB', 1795037759571, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'prepaid', 'openai', 'fast', 'sim/hello', '[{"target":"sim/hello","error":null,"duration_s":0.000559,"resends":0}]', false, 200, 'completed', NULL, 'stop', 3, 16, '{"input_uncached":3,"cache_read":0,"audio_input":0,"output":16,"reasoning":0,"audio_output":0}', 'provider', NULL, 4099000, 67000, '2026-11-15+config', NULL, 15, 2, 0, 0, 0, 74, 611, '127.0.0.1', NULL, NULL, NULL, '01a1f096874c144078f1fc46', false);
INSERT INTO public.secrets VALUES
	('admin', '\x632f57c50fd1a5a87cf5d5605141780892f37e03b9ca3b58d9699e942f50c25f', 1791581756273);
INSERT INTO public.usage_hours VALUES
	(497661, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(497661, 'default', 'key_193nu752nzyzb7yaL', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(497661, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(497661, 'default', 'key_193nu752nzyzb7yaL', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0),
	(497661, 'default', 'key_0hZnQNBUUu7xNWZo5', 'fast', 'sim', 1, 0, 3, 0, 16, 0, 67000, 0),
	(497661, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0),
	(498621, 'default', 'file:file', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(498621, 'default', 'key_193nu752nzyzb7yaL', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(498621, 'ws_0qLnSWOySHctFChtn', 'key_0a6njl2feYfcSvZSY', 'fast', 'sim', 2, 0, 6, 0, 32, 0, 134000, 0),
	(498621, 'default', 'key_193nu752nzyzb7yaL', 'broken', 'sim', 1, 1, 3, 0, 3, 0, 15000, 0),
	(498621, 'ws_0qLnSWOySHctFChtn', 'key_112567brNFxGhEVEj', 'fast', 'sim', 3, 0, 9, 0, 48, 0, 201000, 0);
INSERT INTO public.workspaces VALUES
	('default', 'default', false, 1791581749555, 1),
	('ws_0qLnSWOySHctFChtn', 'acme', true, 1791581748982, 10);
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
ALTER TABLE ONLY public.usage_hours
    ADD CONSTRAINT usage_hours_pkey PRIMARY KEY (hour, workspace_id, key_id, model, provider);
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
CREATE INDEX requests_by_time ON public.requests USING btree (at_ms, seq);
CREATE INDEX requests_of_completion ON public.requests USING btree (completion_id, seq);
CREATE INDEX requests_of_key ON public.requests USING btree (key_id, at_ms, seq);
CREATE INDEX requests_of_workspace ON public.requests USING btree (workspace_id, at_ms, seq);
CREATE INDEX usage_of_key ON public.usage_hours USING btree (key_id, hour);
