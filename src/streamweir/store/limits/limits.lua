-- The limits of all processes that share a Valkey: the rules of policy/limits/local.py, in one atomic step per call.
--
-- KEYS[1] is the prefix of every key, with a hash tag, so that all of them lie in one slot: a call
-- touches accounts and leases of several requests, which a cluster would spread over slots. Most key
-- names are computed here from stored values, so cluster mode is not supported.
--
--   P:clock        the last time of the clock, and the total by which it was set back
--   P:k:{key}      requests and tokens of the last minute, by tick
--   P:s:{key}      its streams: request ids by the end of their lease
--   P:r:{request}  a reservation: {key, tick, tokens, amount, is held, planned, account, limit, code, ...}
--   P:leases       reservations that hold something, by the end of their lease
--   P:alive        processes by the end of their own lease, which every call of theirs renews
--   P:i:{process}  the reservations of each of them
--   P:x:{process}  it was declared dead: if it is alive, it must renew its reservations
--   P:a:{account}  the used amount: spent and held
--   P:n:{account}  its open reservations and what they plan: a hash with `open` and `planned`
--   P:t:{account}  the time of the last charge or settlement, if that was in the last few seconds
--   P:p:{account}  until when it is pinned: not corrected from the ledger
--
-- Time is the server's own in microseconds, made monotonic; numbers are exact up to 2^53. Work is
-- bounded: 121 ticks, the charges of one request, the expired leases below. Every key expires: those of a key
-- when they have no effect any more, the others a day after their last use.

local P = KEYS[1]
-- Removed from ARGV, so that the arguments of each command follow the first three.
local INSTANCE, INSTANCE_LEASE = table.remove(ARGV, 4), tonumber(table.remove(ARGV, 4))
local COMMAND, LEASE = ARGV[1], tonumber(ARGV[3])
local TICK, TICKS, SECOND = 500000, 120, 1000000
local STREAM_RETRY = 1000000
local MAX_EXPIRED = 256
local USE_S, DAY_S = 120, 86400
local LEASES, ALIVE = P .. ':leases', P .. ':alive'
-- After this time a charge is in the ledger or pinned: a decision takes two seconds at most.
local POSTED_S = 5

-- What refuses: a kind of limit, by its index in policy/limits/key_limits.py, or the money.
local BY_REQUESTS, BY_TOKENS, BY_STREAMS, LIMITS = 1, 2, 3, 3
local MISSING, NO_MONEY = -1, -2

-- Indexes of a reservation.
local KEY, MOMENT, TOKENS, AMOUNT, IS_HELD, PLANNED, CHARGES = 1, 2, 3, 4, 5, 6, 7

local function text(number)
    return string.format('%.0f', number)
end

-- The time, and the time since the last call.
local function monotonic()
    local now = tonumber(ARGV[2])
    if not now then
        local parts = redis.call('TIME')
        now = parts[1] * SECOND + parts[2]
    end
    local shift, gap = 0, 0
    local saved = redis.call('GET', P .. ':clock')
    if saved then
        local clock = cmsgpack.unpack(saved)
        shift, gap = clock[2], now - clock[1]
        if now < clock[1] then
            shift = shift + clock[1] - now
        end
    end
    redis.call('SET', P .. ':clock', cmsgpack.pack({ now, shift }), 'EX', DAY_S)
    return now + shift, gap
end

-- The last minute of a key: {ticks = {tick, requests, tokens, ...}, totals}, without what is older.
local function load_use(key, now)
    local use = { name = P .. ':k:' .. key, ticks = {}, requests = 0, tokens = 0 }
    local saved = redis.call('GET', use.name)
    if saved then
        local oldest = math.floor(now / TICK) - TICKS
        local ticks, all = use.ticks, cmsgpack.unpack(saved)
        for i = 1, #all, 3 do
            if all[i] >= oldest then
                local n = #ticks
                ticks[n + 1], ticks[n + 2], ticks[n + 3] = all[i], all[i + 1], all[i + 2]
                use.requests = use.requests + all[i + 1]
                use.tokens = use.tokens + all[i + 2]
            end
        end
    end
    return use
end

local function save_use(use)
    redis.call('SET', use.name, cmsgpack.pack(use.ticks), 'EX', USE_S)
end

-- Index of the tick's requests in the ticks; nil if the tick is no longer (or not yet) counted.
local function tick_index(use, tick)
    for i = #use.ticks - 2, 1, -3 do
        if use.ticks[i] == tick then
            return i + 1
        end
    end
    return nil
end

local function until_out(tick, now)
    return (tick + TICKS + 1) * TICK - now
end

-- offset: 1 for requests, 2 for tokens.
local function until_gone(use, offset, amount, now)
    for i = 1, #use.ticks, 3 do
        amount = amount - use.ticks[i + offset]
        if amount <= 0 then
            return until_out(use.ticks[i], now)
        end
    end
    return TICKS * TICK
end

local function until_none(use, offset, now)
    for i = #use.ticks - 2, 1, -3 do
        if use.ticks[i + offset] ~= 0 then
            return until_out(use.ticks[i], now)
        end
    end
    return 0
end

-- An unknown account stays unknown: it is seeded from the ledger before it is charged.
local function change(reservation, amount)
    for i = CHARGES, #reservation, 3 do
        local name = P .. ':a:' .. reservation[i]
        if amount ~= 0 and redis.call('EXISTS', name) == 1 then
            if redis.call('INCRBY', name, text(amount)) < 0 then
                redis.call('SET', name, '0', 'KEEPTTL')
            end
        end
    end
end

-- Counts an open reservation, and what it plans. Of an unknown account nothing is counted.
local function plan(reservation, open, planned)
    for i = CHARGES, #reservation, 3 do
        local name = P .. ':n:' .. reservation[i]
        for field, more in pairs({ open = open, planned = planned }) do
            if more ~= 0 and redis.call('EXISTS', P .. ':a:' .. reservation[i]) == 1
                and redis.call('HINCRBY', name, field, text(more)) < 0 then
                redis.call('HSET', name, field, '0')
            end
        end
        redis.call('EXPIRE', name, DAY_S)
    end
end

-- The number of open reservations of an account, and what they plan.
local function plans(account)
    local found = redis.call('HMGET', P .. ':n:' .. account, 'open', 'planned')
    return tonumber(found[1] or 0), tonumber(found[2] or 0)
end

-- Marks its accounts as changed in a way that may not be in the ledger yet.
local function touch(reservation, now)
    for i = CHARGES, #reservation, 3 do
        redis.call('SET', P .. ':t:' .. reservation[i], text(now), 'EX', POSTED_S)
    end
end

local function load_reservation(id)
    local saved = redis.call('GET', P .. ':r:' .. id)
    return saved and cmsgpack.unpack(saved) or nil
end

local function save_reservation(id, reservation)
    redis.call('SET', P .. ':r:' .. id, cmsgpack.pack(reservation), 'EX', DAY_S)
end

-- Releases the stream and the money, but keeps the reservation.
local function release(id)
    redis.call('ZREM', LEASES, id)
    local reservation = load_reservation(id)
    if reservation and reservation[IS_HELD] == 1 then
        redis.call('ZREM', P .. ':s:' .. reservation[KEY], id)
        change(reservation, -reservation[AMOUNT])
        plan(reservation, -1, -reservation[PLANNED])
        reservation[IS_HELD] = 0
        save_reservation(id, reservation)
    end
end

-- Renews the lease of this process. After a while without calls, Valkey was unavailable: then all leases are renewed.
local function renew_instance(now, gap)
    if INSTANCE == '' then
        return
    end
    if gap >= INSTANCE_LEASE / 2 then
        for _, each in ipairs(redis.call('ZRANGE', ALIVE, 0, -1)) do
            redis.call('ZADD', ALIVE, text(now + INSTANCE_LEASE), each)
        end
    end
    redis.call('ZADD', ALIVE, text(now + INSTANCE_LEASE), INSTANCE)
    redis.call('EXPIRE', ALIVE, DAY_S)
end

-- Expires leases that were not renewed, and the reservations of dead processes.
local function expire_leases(now)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', text(now), 'LIMIT', 0, MAX_EXPIRED)) do
        release(id)
        redis.call('SREM', P .. ':i:' .. INSTANCE, id)
    end
    local dead = redis.call('ZRANGEBYSCORE', ALIVE, '-inf', text(now), 'LIMIT', 0, 1)[1]
    if dead then
        for _, id in ipairs(redis.call('SPOP', P .. ':i:' .. dead, MAX_EXPIRED)) do
            release(id)
        end
        if redis.call('EXISTS', P .. ':i:' .. dead) == 0 then
            redis.call('ZREM', ALIVE, dead)
        end
        redis.call('SET', P .. ':x:' .. dead, '1', 'EX', DAY_S)
    end
end

local function lease(id, reservation, now)
    local streams, ends = P .. ':s:' .. reservation[KEY], text(now + LEASE)
    redis.call('ZADD', LEASES, ends, id)
    redis.call('EXPIRE', LEASES, DAY_S)
    redis.call('ZADD', streams, ends, id)
    redis.call('PEXPIRE', streams, text(LEASE / 1000 + 60000))
    if INSTANCE ~= '' then
        redis.call('SADD', P .. ':i:' .. INSTANCE, id)
        redis.call('EXPIRE', P .. ':i:' .. INSTANCE, DAY_S)
    end
end

local function renew(id, reservation, now)
    if reservation[IS_HELD] == 0 then
        reservation[IS_HELD] = 1
        change(reservation, reservation[AMOUNT])
        plan(reservation, 1, reservation[PLANNED])
    end
    save_reservation(id, reservation)
    lease(id, reservation, now)
end

-- The answer: kind (0 allowed, else what refuses it), wait in microseconds, requests and tokens
-- used and the time until none are, for MISSING and NO_MONEY which charges, and for a reservation its plan.
local function answer(kind, wait, use, now, numbers)
    local values = {
        text(kind), text(wait),
        text(use.requests), text(until_none(use, 1, now)),
        text(use.tokens), text(until_none(use, 2, now)),
    }
    for _, number in ipairs(numbers or {}) do
        values[#values + 1] = text(number)
    end
    return table.concat(values, ' ')
end

-- Kind and wait of the limit that refuses a request, money apart. ARGV from `first`: the limits; -1: no limit.
local function check(key, use, first, tokens, now)
    local rpm, tpm = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
    local max_streams = tonumber(ARGV[first + 2])
    local excess_requests = rpm >= 0 and use.requests + 1 - rpm or 0
    local excess_tokens = tpm >= 0 and use.tokens + tokens - tpm or 0
    if excess_requests > 0 or excess_tokens > 0 then
        local requests_wait = excess_requests > 0 and until_gone(use, 1, excess_requests, now) or 0
        local tokens_wait = excess_tokens > 0 and until_gone(use, 2, excess_tokens, now) or 0
        if tokens_wait > requests_wait then
            return BY_TOKENS, tokens_wait
        end
        return BY_REQUESTS, requests_wait
    end
    if max_streams >= 0 then
        local streams = P .. ':s:' .. key
        redis.call('ZREMRANGEBYSCORE', streams, '-inf', text(now))
        if redis.call('ZCARD', streams) >= max_streams then
            return BY_STREAMS, STREAM_RETRY
        end
    end
    return 0, 0
end

-- The kind of the refusal of the charges, and their indexes, or 0 and the plan that fits. ARGV from `first`: account,
-- limit, code.
local function check_money(first, amount, planned, takes_rest)
    local missing, exceeded, rest = {}, nil, planned
    for i = first, #ARGV, 3 do
        local name, number = P .. ':a:' .. ARGV[i], (i - first) / 3
        local used = tonumber(redis.call('GET', name))
        if not used then
            missing[#missing + 1] = number
        else
            local open, others = plans(ARGV[i])
            local room = tonumber(ARGV[i + 1]) - used - amount
            local fits = room >= 0 and (room >= others + planned or takes_rest or open == 0)
            if not exceeded and not fits then
                exceeded = number
            end
            rest = math.min(rest, room - others)
        end
        redis.call('EXPIRE', name, DAY_S)
        redis.call('EXPIRE', P .. ':n:' .. ARGV[i], DAY_S)
    end
    if #missing > 0 then
        return MISSING, missing
    end
    if exceeded then
        return NO_MONEY, { exceeded }
    end
    return 0, math.max(0, rest)
end

-- Counts a request that fits, and holds its stream and its money. ARGV from `charges_from`: account, limit, code.
local function count(id, key, use, tokens, amount, planned, charges_from, now)
    local tick, n = math.floor(now / TICK), #use.ticks
    if use.ticks[n - 2] ~= tick then
        use.ticks[n + 1], use.ticks[n + 2], use.ticks[n + 3] = tick, 0, 0
        n = n + 3
    end
    use.ticks[n - 1] = use.ticks[n - 1] + 1
    use.ticks[n] = use.ticks[n] + tokens
    use.requests = use.requests + 1
    use.tokens = use.tokens + tokens
    save_use(use)
    local reservation = { key, tick, tokens, amount, 1, planned }
    for i = charges_from, #ARGV do
        reservation[#reservation + 1] = ARGV[i]
    end
    change(reservation, amount)
    plan(reservation, 1, planned)
    touch(reservation, now)
    save_reservation(id, reservation)
    lease(id, reservation, now)
end

-- reserve: request, key, tokens, amount, planned, 1 if it takes the rest, the limits, {account, limit, code}
local function reserve(now)
    local id, key = ARGV[4], ARGV[5]
    local tokens, amount, charges_from = tonumber(ARGV[6]), tonumber(ARGV[7]), 10 + LIMITS
    local use = load_use(key, now)
    local known = load_reservation(id)
    if known then
        renew(id, known, now)
        return answer(0, 0, use, now, { known[PLANNED] })
    end
    local kind, wait = check(key, use, 10, tokens, now)
    if kind ~= 0 then
        return answer(kind, wait, use, now)
    end
    local money, found = check_money(charges_from, amount, tonumber(ARGV[8]), ARGV[9] == '1')
    if money ~= 0 then
        return answer(money, 0, use, now, found)
    end
    count(id, key, use, tokens, amount, found, charges_from, now)
    return answer(0, 0, use, now, { found })
end

-- reserve_all: {request, key, tokens, the limits}, each of another key: all of them or none. Answers with the kind and
-- the wait of the refusal with the longest wait.
local function reserve_all(now)
    local size, uses, kind, wait = 3 + LIMITS, {}, 0, 0
    for i = 4, #ARGV, size do
        if not load_reservation(ARGV[i]) then
            uses[i] = load_use(ARGV[i + 1], now)
            local own_kind, own_wait = check(ARGV[i + 1], uses[i], i + 3, tonumber(ARGV[i + 2]), now)
            if own_kind ~= 0 and (kind == 0 or own_wait > wait) then
                kind, wait = own_kind, own_wait
            end
        end
    end
    if kind == 0 then
        for i = 4, #ARGV, size do
            if uses[i] then
                count(ARGV[i], ARGV[i + 1], uses[i], tonumber(ARGV[i + 2]), 0, 0, #ARGV + 1, now)
            else
                renew(ARGV[i], load_reservation(ARGV[i]), now)
            end
        end
    end
    return text(kind) .. ' ' .. text(wait)
end

-- peek: key, the limits
local function peek(now)
    local use = load_use(ARGV[4], now)
    local kind, wait = check(ARGV[4], use, 5, 1, now)
    return answer(kind, wait, use, now)
end

-- extend: request, amount, 1 if it takes the rest, {account, limit, code}: the present limits. Answers with the code of
-- the charge that does not fit.
local function extend(now)
    local id, amount, takes_rest = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
    local reservation = load_reservation(id)
    if not reservation then
        return 'unknown'
    end
    if reservation[IS_HELD] == 0 then
        renew(id, reservation, now)
    end
    local before = reservation[PLANNED]
    local planned = math.max(0, before - amount)
    for i = 7, #ARGV, 3 do
        local used = tonumber(redis.call('GET', P .. ':a:' .. ARGV[i]))
        if not used then
            return 'unknown'
        end
        local _, every = plans(ARGV[i])
        local room = tonumber(ARGV[i + 1]) - used - amount
        local rest = room - every + before
        if room < 0 or (rest < 0 and not takes_rest) then
            return ARGV[i + 2]
        end
        planned = math.max(0, math.min(planned, rest))
    end
    change(reservation, amount)
    plan(reservation, 0, planned - before)
    touch(reservation, now)
    reservation[AMOUNT] = reservation[AMOUNT] + amount
    reservation[PLANNED] = planned
    save_reservation(id, reservation)
    return ''
end

-- tokens: nil if they stay as estimated.
local function settle(id, tokens, cost, took_place, now)
    local reservation = load_reservation(id)
    if not reservation then
        return
    end
    change(reservation, cost - reservation[IS_HELD] * reservation[AMOUNT])
    if reservation[IS_HELD] == 1 then
        plan(reservation, -1, -reservation[PLANNED])
    end
    touch(reservation, now)
    redis.call('DEL', P .. ':r:' .. id)
    redis.call('SREM', P .. ':i:' .. INSTANCE, id)
    redis.call('ZREM', LEASES, id)
    redis.call('ZREM', P .. ':s:' .. reservation[KEY], id)
    local more = tokens and tokens - reservation[TOKENS] or 0
    if more ~= 0 or not took_place then
        local use = load_use(reservation[KEY], now)
        local index = tick_index(use, reservation[MOMENT])
        if index then
            use.ticks[index] = use.ticks[index] - (took_place and 0 or 1)
            use.ticks[index + 1] = use.ticks[index + 1] + more
            save_use(use)
        end
    end
end

-- adjust: account, used, 1: the used amount is at least that. Answers 1 if no further correction is needed.
local function adjust(now)
    local name, used = P .. ':a:' .. ARGV[4], ARGV[5]
    local known = redis.call('GET', name)
    if not known then
        return '1'
    end
    local touched = tonumber(redis.call('GET', P .. ':t:' .. ARGV[4]))
    local pinned = tonumber(redis.call('GET', P .. ':p:' .. ARGV[4]))
    if (touched and now - touched < POSTED_S * SECOND) or (pinned and now < pinned) then
        if ARGV[6] == '1' and tonumber(used) > tonumber(known) then
            redis.call('SET', name, used, 'EX', DAY_S)
        end
        return ''
    end
    redis.call('SET', name, used, 'EX', DAY_S)
    return '1'
end

local now, gap = monotonic()
renew_instance(now, gap)
expire_leases(now)
if COMMAND == 'reserve' then
    return reserve(now)
elseif COMMAND == 'reserve_all' then
    return reserve_all(now)
elseif COMMAND == 'settle' then -- request, tokens (or nothing: as estimated), cost, 1 if it was served, else 0
    settle(ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1', now)
    return ''
elseif COMMAND == 'settle_all' then -- tokens, 1 or 0 as for `settle`, requests
    for i = 6, #ARGV do
        settle(ARGV[i], tonumber(ARGV[4]), 0, ARGV[5] == '1', now)
    end
    return ''
elseif COMMAND == 'extend' then
    return extend(now)
elseif COMMAND == 'count' then -- request, more tokens
    local reservation = load_reservation(ARGV[4])
    if reservation then
        local use = load_use(reservation[KEY], now)
        local index = tick_index(use, reservation[MOMENT])
        reservation[TOKENS] = reservation[TOKENS] + tonumber(ARGV[5])
        save_reservation(ARGV[4], reservation)
        if index then
            use.ticks[index + 1] = use.ticks[index + 1] + tonumber(ARGV[5])
            save_use(use)
        end
    end
    return ''
elseif COMMAND == 'peek' then
    return peek(now)
elseif COMMAND == 'usage' then -- keys. Answers with the requests, tokens and streams of each
    local values = {}
    for i = 4, #ARGV do
        local use = load_use(ARGV[i], now)
        local streams = redis.call('ZCOUNT', P .. ':s:' .. ARGV[i], '(' .. text(now), '+inf')
        values[#values + 1] = text(use.requests) .. ' ' .. text(use.tokens) .. ' ' .. text(streams)
    end
    return table.concat(values, ' ')
elseif COMMAND == 'renew' then
    for i = 4, #ARGV do
        local reservation = load_reservation(ARGV[i])
        if reservation then
            renew(ARGV[i], reservation, now)
        end
    end
    return ''
elseif COMMAND == 'beat' then -- answers 1 if this process must renew all its reservations
    return text(redis.call('DEL', P .. ':x:' .. INSTANCE))
elseif COMMAND == 'end' then -- process: it is dead
    if redis.call('EXISTS', P .. ':i:' .. ARGV[4]) == 1 then
        redis.call('ZADD', ALIVE, '0', ARGV[4])
        expire_leases(now)
    else
        redis.call('ZREM', ALIVE, ARGV[4])
    end
    return ''
elseif COMMAND == 'seed' then -- account, used
    redis.call('SET', P .. ':a:' .. ARGV[4], ARGV[5], 'EX', DAY_S, 'NX')
    return ''
elseif COMMAND == 'correct' then -- account, used
    redis.call('SET', P .. ':a:' .. ARGV[4], ARGV[5], 'EX', DAY_S)
    return ''
elseif COMMAND == 'adjust' then
    return adjust(now)
elseif COMMAND == 'pin' then -- accounts
    for i = 4, #ARGV do
        redis.call('SET', P .. ':p:' .. ARGV[i], text(now + LEASE), 'EX', DAY_S)
    end
    return ''
elseif COMMAND == 'used' then -- account
    return redis.call('GET', P .. ':a:' .. ARGV[4]) or ''
end
return redis.error_reply('ERR unknown command')
