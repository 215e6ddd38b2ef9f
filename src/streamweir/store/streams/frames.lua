-- The frames of resumable streams, shared by the nodes: one atomic step per call. See store/streams/shared_frames.py.
--
-- KEYS[1] is the prefix of every key, with a hash tag, so that all of them lie in one slot. ARGV[1] is the command.
--
--   P:h:{stream}          its head: a hash with `owner` (a process), `state`, `last` (the number of events), `meta`,
--                         `once` (the key of its Idempotency-Key, or nothing), and after a deletion elsewhere
--                         `stopped` (what its owner says to that: 1, it has ended it; 0, it did not have it)
--   P:f:{stream}          its frames: a Valkey stream. The id of an entry is the number of its last event and 0, its
--                         members are the lengths of its events and their bytes. What ends the stream is an entry too:
--                         the number of the last event and 1, with the state
--   P:o:{process}         the process is alive: its lease, renewed by each `publish`
--   P:k:{key}:{digest}    the stream of an Idempotency-Key
--   P:m:{process}         messages to a process: a Valkey stream
--   P:n                   the processes that serve, as `node/process`, by the end of their lease
--   P:b                   since when this Valkey has its data, in ms: what was before that is not here any more
--
-- Only the owner appends, and only to a stream that is live: after another node has ended it, because the lease of its
-- owner had expired, the owner is refused. Every step may be repeated. Every key expires.

local P = KEYS[1]
local COMMAND = ARGV[1]
local LIVE, LOST, DELETED = 'live', 'lost', 'deleted'
local MAX_MESSAGES = 10000
local DATA_LIFE = 86400000 -- while no process serves
-- The answers of the steps of `publish` besides numbers.
local MISSING, REFUSED, ENDED, DONE, STOPPED = 'm', 'x', 'e', '-', 'd'
-- The answer to `find` when what is asked for may have been lost a moment ago.
local INCOMPLETE = '?'

local function frames(id)
    return P .. ':f:' .. id
end

local function head(id)
    return P .. ':h:' .. id
end

local function lease(process)
    return P .. ':o:' .. process
end

local function now()
    local parts = redis.call('TIME')
    return parts[1] * 1000 + math.floor(parts[2] / 1000)
end

-- The number of events of a live stream of this owner; else nothing, and the answer.
local function known(id, owner)
    local found = redis.call('HMGET', head(id), 'owner', 'state', 'last')
    if not found[1] then
        return nil, MISSING
    elseif found[1] ~= owner or found[2] == LOST then
        return nil, REFUSED
    elseif found[2] == DELETED then
        return nil, STOPPED
    elseif found[2] ~= LIVE then
        return nil, ENDED
    end
    return found[3]
end

-- Answers with the number of events that are known.
local function open(id, owner, meta, ttl, idempotency)
    local at, answer = known(id, owner)
    if answer == MISSING then
        at = '0'
        redis.call('DEL', frames(id))
        redis.call('HSET', head(id), 'owner', owner, 'state', LIVE, 'last', at, 'meta', meta, 'once', idempotency)
        redis.call('PEXPIRE', head(id), ttl)
    end
    if at and idempotency ~= '' then
        redis.call('SET', P .. ':k:' .. idempotency, id, 'PX', ttl)
    end
    return at or answer
end

-- What does not follow the last event is not written. Answers with the number of events that are known.
local function append(id, owner, first, last, lengths, data, ttl, most)
    local at, answer = known(id, owner)
    if not at then
        return answer
    elseif tonumber(first) ~= tonumber(at) + 1 then
        return at
    end
    local key, entry = frames(id), last .. '-0'
    if at == '0' then
        redis.call('XADD', key, 'MAXLEN', '~', most, entry, 'l', lengths, 'd', data)
        redis.call('PEXPIRE', key, ttl)
    elseif not redis.call('XADD', key, 'NOMKSTREAM', 'MAXLEN', '~', most, entry, 'l', lengths, 'd', data) then
        redis.call('DEL', head(id)) -- the frames were evicted: all of them must come again
        return MISSING
    end
    redis.call('HSET', head(id), 'last', last)
    return last
end

local function finish(id, last, state, keep, known_for)
    redis.call('XADD', frames(id), last .. '-1', 'e', state)
    redis.call('HSET', head(id), 'state', state)
    redis.call('PEXPIRE', frames(id), keep)
    redis.call('PEXPIRE', head(id), known_for)
    local once = redis.call('HGET', head(id), 'once')
    if once and once ~= '' then
        redis.call('PEXPIRE', P .. ':k:' .. once, keep)
    end
end

local function finish_own(id, owner, last, state, keep, known_for)
    local at, answer = known(id, owner)
    if not at or at ~= last then
        return at or answer
    end
    finish(id, last, state, keep, known_for)
    return ENDED
end

-- Its frames are dropped, whether it has ended or not; those who follow it learn so, and those who ask for it later.
local function give_up(id, owner, state, meta, keep, known_for)
    local found = redis.call('HMGET', head(id), 'owner', 'last', 'state')
    if not found[1] then -- it was never here, or is not any more
        redis.call('HSET', head(id), 'owner', owner, 'last', '0', 'meta', meta)
        found = { owner, '0' }
    elseif found[1] ~= owner then
        return REFUSED
    elseif found[3] == DELETED then
        return STOPPED
    end
    redis.call('DEL', frames(id))
    finish(id, found[2], state, keep, known_for)
    return ENDED
end

-- By another node, or for an owner that is dead. Answers with the state before, 1 if the owner is alive, and what that
-- has said to it, if anything.
local function delete(id, keep, known_for)
    local found = redis.call('HMGET', head(id), 'owner', 'last', 'state', 'stopped')
    if not found[1] then
        return MISSING
    end
    if found[3] ~= DELETED then
        redis.call('DEL', frames(id))
        finish(id, found[2], DELETED, keep, known_for)
    end
    return found[3] .. ' ' .. redis.call('EXISTS', lease(found[1])) .. ' ' .. (found[4] or DONE)
end

-- process, its lease, life of a live stream, most entries, life of the frames and of the head of one that has ended.
-- Then the steps, each with its arguments. Answers with 1 if the lease was still there, then with a word for each step.
local function publish()
    local owner, lease_ms, ttl, most, keep, known_for = unpack(ARGV, 2, 7)
    local answers = { tostring(redis.call('EXISTS', lease(owner))) }
    redis.call('SET', lease(owner), '1', 'PX', lease_ms)
    local i = 8
    while ARGV[i] do
        local step, id, a, b, c, d = unpack(ARGV, i, i + 5)
        local answer, count
        if step == 'open' then -- meta, key of the Idempotency-Key or nothing
            answer, count = open(id, owner, a, ttl, b), 2
        elseif step == 'append' then -- first and last event, their lengths, their bytes
            answer, count = append(id, owner, a, b, c, d, ttl, most), 4
        elseif step == 'end' then -- last event, how
            answer, count = finish_own(id, owner, a, b, keep, known_for), 2
        elseif step == 'give_up' then -- how, meta
            answer, count = give_up(id, owner, a, b, keep, known_for), 2
        elseif step == 'stopped' then -- 1: it was deleted elsewhere, and has ended here; 0: it was not here
            if redis.call('EXISTS', head(id)) == 1 then
                redis.call('HSET', head(id), 'stopped', a)
            end
            answer, count = DONE, 1
        elseif step == 'unlink' then -- key of the Idempotency-Key
            if redis.call('GET', P .. ':k:' .. a) == id then
                redis.call('DEL', P .. ':k:' .. a)
            end
            answer, count = DONE, 1
        elseif step == 'renew' then -- key of the Idempotency-Key or nothing
            redis.call('PEXPIRE', frames(id), ttl)
            redis.call('PEXPIRE', head(id), ttl)
            redis.call('PEXPIRE', P .. ':k:' .. a, ttl)
            answer, count = DONE, 1
        else
            return redis.error_reply('ERR unknown step')
        end
        answers[#answers + 1] = answer
        i = i + 2 + count
    end
    return table.concat(answers, ' ')
end

-- Answers with id, owner, state, last event, 1 if the owner is alive, and meta, in lines; or with nothing.
local function find(id)
    local found = redis.call('HMGET', head(id), 'owner', 'state', 'last', 'meta')
    if not found[1] then
        return ''
    end
    local alive = tostring(redis.call('EXISTS', lease(found[1])))
    return table.concat({ id, found[1], found[2], found[3], alive, found[4] }, '\n')
end

-- To be asked for what was not found: whether that was here so short a time ago that Valkey may have lost it since.
local function missing(recovery)
    local at, since = now(), redis.call('GET', P .. ':b')
    if not since or tonumber(since) > at then -- the clock may have been set back
        since = at
        redis.call('SET', P .. ':b', since, 'PX', DATA_LIFE)
    end
    return at - since < tonumber(recovery) and INCOMPLETE or ''
end

-- The state of a stream, or nothing. A live one whose owner is dead is ended here, once, for all nodes.
local function check(id, keep, known_for)
    local found = redis.call('HMGET', head(id), 'owner', 'state', 'last')
    if not found[1] or redis.call('EXISTS', frames(id)) == 0 and found[3] ~= '0' then
        return MISSING
    elseif found[2] == LIVE and redis.call('EXISTS', lease(found[1])) == 0 then
        finish(id, found[3], LOST, keep, known_for)
        return LOST
    end
    return found[2]
end

if COMMAND == 'publish' then
    return publish()
elseif COMMAND == 'find' then -- time for recovery, stream
    local found = find(ARGV[3])
    return found ~= '' and found or missing(ARGV[2])
elseif COMMAND == 'find_idempotent' then -- time for recovery, key of the Idempotency-Key
    local id = redis.call('GET', P .. ':k:' .. ARGV[3])
    local found = id and find(id) or ''
    return found ~= '' and found or missing(ARGV[2])
elseif COMMAND == 'delete' then -- life of the frames and of the head of one that has ended, stream
    return delete(ARGV[4], ARGV[2], ARGV[3])
elseif COMMAND == 'check' then -- life of the frames and of the head of one that has ended, streams
    local answers = {}
    for i = 4, #ARGV do
        answers[#answers + 1] = check(ARGV[i], ARGV[2], ARGV[3])
    end
    return table.concat(answers, ' ')
elseif COMMAND == 'tell' then -- process, life, names and values
    local inbox = P .. ':m:' .. ARGV[2]
    redis.call('XADD', inbox, 'MAXLEN', '~', MAX_MESSAGES, '*', unpack(ARGV, 4))
    redis.call('PEXPIRE', inbox, ARGV[3])
    return ''
elseif COMMAND == 'serve' then -- node, process, lease; a lease of 0: it serves no longer
    local name, at = P .. ':n', now()
    redis.call('ZREMRANGEBYSCORE', name, '-inf', at)
    redis.call('SET', P .. ':b', at, 'NX')
    redis.call('PEXPIRE', P .. ':b', DATA_LIFE)
    if ARGV[4] == '0' then
        redis.call('ZREM', name, ARGV[2] .. '/' .. ARGV[3])
    else
        redis.call('ZADD', name, at + ARGV[4], ARGV[2] .. '/' .. ARGV[3])
        redis.call('PEXPIRE', name, ARGV[4] * 10)
    end
    return ''
elseif COMMAND == 'others' then -- node. Answers with 1 if another node serves
    local own = ARGV[2] .. '/'
    for _, each in ipairs(redis.call('ZRANGEBYSCORE', P .. ':n', now(), '+inf')) do
        if string.sub(each, 1, #own) ~= own then
            return '1'
        end
    end
    return '0'
elseif COMMAND == 'leave' then -- process: it ends, and its live streams with it
    redis.call('DEL', lease(ARGV[2]), P .. ':m:' .. ARGV[2])
    return ''
end
return redis.error_reply('ERR unknown command')
