// What happens inside Redis, each script in one atomic step.
//
// A session's manifest is a hash:
//   record    its newest record, JSON
//   version   of that record
//   last_used its last use, microseconds since 1970; later than the record says if it was touched
//   epoch     of the server that may write it; a later claim has a larger one
//   s<N>      where the state of version N is: "<token> <bytes> <bytes per piece>"
//   created   the key of the set of all sessions that one call with an idempotency key made
//   deleted   there instead of record and states for a day, so that a server that did not hear of
//             the end cannot bring the session back
// States of marks may come before there is a record; until it comes, all of them expire together,
// some time after the last.
// Piece n of a state is a string under <pieces prefix><N>:<token>:<n>; the token differs for every
// attempt to store, so that what is committed is never written over. Beside them are a set of the
// ids of all sessions and the sum of the bytes of all states.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_SCRIPTS_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_SCRIPTS_H_

namespace tvq::redis_scripts {

// KEYS of every script: manifest, index, total. ARGV of every script: id, pieces prefix, epoch of
// the caller's claim or 0. Every answer is a list of strings that begins with a word: "ok", or what
// forbids it. PERSIST comes first where a full memory must not stand in the way: once a script has
// written, Redis lets it finish.
inline constexpr char kCommon[] = R"lua(
local manifest, index, total = KEYS[1], KEYS[2], KEYS[3]
local id, prefix, epoch = ARGV[1], ARGV[2], tonumber(ARGV[3])
local old = {}
do
  local all = redis.call('HGETALL', manifest)
  for i = 1, #all, 2 do old[all[i]] = all[i + 1] end
end
local stored_epoch = tonumber(old.epoch or '0')
local last_used = tonumber(old.last_used or '0')

local function text(number) return string.format('%.0f', number) end

-- Larger than any epoch before, also if this Redis has lost its data meanwhile, and than the caller's.
local function new_epoch()
  local now = redis.call('TIME')
  local milliseconds = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
  return math.max(stored_epoch + 1, epoch + 1, milliseconds)
end

local function layout(place)
  local token, bytes, piece = string.match(place, '^(%x+) (%d+) (%d+)$')
  return token, tonumber(bytes), tonumber(piece)
end

-- Calls visit(key of a piece, its number) for all of a state.
local function each_piece(version, place, visit)
  local token, bytes, piece = layout(place)
  for n = 0, math.ceil(bytes / piece) - 1 do visit(prefix .. version .. ':' .. token .. ':' .. n, n) end
end

-- Of states that do not expire.
local function count(bytes) redis.call('INCRBY', total, text(bytes)) end

local function drop(version)
  local place = old['s' .. version]
  each_piece(version, place, function(key) redis.call('UNLINK', key) end)
  redis.call('HDEL', manifest, 's' .. version)
  local _, bytes = layout(place)
  if old.record then count(-bytes) end
end

local function each_version(visit)
  for field, place in pairs(old) do
    local version = string.match(field, '^s(%d+)$')
    if version then visit(version, place) end
  end
end

-- What comes before a record.
local function expire(seconds)
  redis.call('EXPIRE', manifest, seconds)
  each_version(function(stored, place)
    each_piece(stored, place, function(key) redis.call('EXPIRE', key, seconds) end)
  end)
end

local function usage()
  return redis.call('GET', total) or '0', tostring(redis.call('SCARD', index))
end
)lua";

// ARGV: version to store, its record's version, bytes, budget or 0, a later version that may be
// replaced because its Put failed or 0, then the versions to keep.
// {"ok", epoch to use, epoch found} | {"deleted"} | {"claimed", epoch} | {"newer", version} |
// {"full", total}
inline constexpr char kAdmission[] = R"lua(
local version, record_version = ARGV[4], tonumber(ARGV[5])
local bytes, budget, undone = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local newest = tonumber(old.version or '0')
if newest == undone then newest = 0 end
-- A mark's state that comes before the state of its record changes nothing else.
local replaces_record = tonumber(version) == record_version or record_version == newest
local function dropped(versions_to_keep)
  local keep, list = {}, {}
  for _, kept in ipairs(versions_to_keep) do keep[kept] = true end
  each_version(function(stored)
    if stored == version or (replaces_record and not keep[stored]) then table.insert(list, stored) end
  end)
  return list
end

local function refusal(versions_to_keep)
  if stored_epoch > epoch then
    if old.deleted then return {'deleted'} end
    return {'claimed', text(stored_epoch)}
  end
  if newest > record_version then return {'newer', text(newest)} end
  local after = tonumber(redis.call('GET', total) or '0') + bytes
  for _, stored in ipairs(dropped(versions_to_keep)) do
    local _, stored_bytes = layout(old['s' .. stored])
    if old.record then after = after - stored_bytes end
  end
  if budget > 0 and after > budget then return {'full', text(after - bytes)} end
  return nil
end
)lua";

inline constexpr char kAdmit[] = R"lua(
local refused = refusal({unpack(ARGV, 9)})
if refused then return refused end
return {'ok', text(epoch > 0 and epoch or new_epoch()), text(stored_epoch)}
)lua";

// ARGV as kAdmission but before the versions to keep: record, its last use, place, seconds until
// states without a record expire, key of `created` or nothing, the epoch that kAdmit found. The
// pieces are there. {"ok", total, sessions} | as kAdmit | {"lost", what}
inline constexpr char kCommit[] = R"lua(
local record, used, place, uncommitted_seconds = ARGV[9], tonumber(ARGV[10]), ARGV[11], ARGV[12]
local created, found_epoch = ARGV[13], tonumber(ARGV[14])
local versions_to_keep = {unpack(ARGV, 15)}
local refused = refusal(versions_to_keep)
if refused then return refused end
-- With the manifest went the states of marks.
if stored_epoch < found_epoch then return {'lost', 'the manifest'} end
local drops = dropped(versions_to_keep)
-- What becomes lasting now: this state, and with the first record those that came before it.
local lasting = {}
if old.record or replaces_record then lasting[version] = place end
if replaces_record and not old.record then
  each_version(function(stored, stored_place)
    if stored ~= version then lasting[stored] = stored_place end
  end)
  for _, stored in ipairs(drops) do if stored ~= version then lasting[stored] = nil end end
end
local lost
local function look(key, n) if redis.call('EXISTS', key) == 0 then lost = 'piece ' .. n end end
each_piece(version, place, look)
for stored, stored_place in pairs(lasting) do each_piece(stored, stored_place, look) end
if lost then return {'lost', lost} end

redis.call('PERSIST', manifest)
for _, stored in ipairs(drops) do drop(stored) end
for stored, stored_place in pairs(lasting) do
  each_piece(stored, stored_place, function(key) redis.call('PERSIST', key) end)
  local _, stored_bytes = layout(stored_place)
  count(stored_bytes)
end
redis.call('HDEL', manifest, 'deleted')
redis.call('HSET', manifest, 'epoch', text(epoch), 's' .. version, place)
if replaces_record then
  redis.call('HSET', manifest, 'record', record, 'version', text(record_version), 'last_used',
             text(math.max(last_used, used)))
  redis.call('SADD', index, id)
  if created ~= '' then
    redis.call('HSET', manifest, 'created', created)
    redis.call('SADD', created, id)
  end
elseif not old.record then
  old['s' .. version] = place
  expire(uncommitted_seconds)
end
return {'ok', usage()}
)lua";

// ARGV: version, place, seconds as kCommit. Whether a kCommit whose answer was lost has been done:
// {"stored"}; if not, it never will be: {"ok", epoch to use from now on}. | {"claimed", epoch}
inline constexpr char kSettle[] = R"lua(
if old['s' .. ARGV[4]] == ARGV[5] then return {'stored'} end
if stored_epoch > epoch then return {'claimed', text(stored_epoch)} end
local later = text(new_epoch())
redis.call('PERSIST', manifest)
redis.call('HSET', manifest, 'epoch', later)
if not old.record then expire(ARGV[6]) end
return {'ok', later}
)lua";

// ARGV: version. {"ok", place} | {"absent"} | {"damaged", piece, bytes there, bytes due}
inline constexpr char kLocate[] = R"lua(
local version = ARGV[4]
local place = old['s' .. version]
if not place then return {'absent'} end
local _, bytes, piece = layout(place)
local damaged
each_piece(version, place, function(key, n)
  local due, there = math.min(piece, bytes - n * piece), redis.call('STRLEN', key)
  if there ~= due then damaged = damaged or {'damaged', text(n), text(there), text(due)} end
end)
return damaged or {'ok', place}
)lua";

// ARGV: the time. {"ok", epoch, record, last use} | {"absent"}
inline constexpr char kClaim[] = R"lua(
if not old.record then return {'absent'} end
local claimed, used = text(new_epoch()), text(math.max(last_used, tonumber(ARGV[4])))
redis.call('PERSIST', manifest)
redis.call('HSET', manifest, 'epoch', claimed, 'last_used', used)
return {'ok', claimed, old.record, used}
)lua";

// ARGV: the time of the last use. {"ok"} | {"absent"} | {"claimed", epoch}
inline constexpr char kTouch[] = R"lua(
if not old.record then return {'absent'} end
if stored_epoch > epoch then return {'claimed', text(stored_epoch)} end
if tonumber(ARGV[4]) > last_used then
  redis.call('PERSIST', manifest)
  redis.call('HSET', manifest, 'last_used', ARGV[4])
end
return {'ok'}
)lua";

inline constexpr char kErase[] = R"lua(
-- Only the end of the session is remembered, for so many seconds.
local function erase(seconds)
  local last = new_epoch()
  each_version(drop)
  if old.created then redis.call('SREM', old.created, id) end
  redis.call('DEL', manifest)
  redis.call('SREM', index, id)
  redis.call('HSET', manifest, 'deleted', '1', 'epoch', text(last))
  redis.call('EXPIRE', manifest, seconds)
end
)lua";

// ARGV: seconds to remember that it was deleted. {"ok", total, sessions} | {"claimed", epoch}
inline constexpr char kDelete[] = R"lua(
if next(old) and not old.deleted then
  if stored_epoch > epoch then return {'claimed', text(stored_epoch)} end
  erase(ARGV[4])
end
return {'ok', usage()}
)lua";

// ARGV: as kDelete, then the last use that does not count any more.
// {"ok", total, sessions} | {"used"}
inline constexpr char kDeleteUnused[] = R"lua(
if not old.record or not old.last_used or last_used > tonumber(ARGV[5]) then return {'used'} end
erase(ARGV[4])
return {'ok', usage()}
)lua";

}  // namespace tvq::redis_scripts

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_SCRIPTS_H_
