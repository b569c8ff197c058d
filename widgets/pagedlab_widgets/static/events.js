// The events of a run, read from the wire and replayed: which blocks change, and in whose table. trace.py tells how they
// travel; the names here are its KINDS. `Pool` does what `PoolState` does in Python, and a test holds one to the other.

export const KINDS = [
  "end", "write", "note", "allocate", "append", "copy-on-write", "fork", "free", "release",
  "preempt", "swap out", "swap in", "cache", "cache hit", "evict", "reset cache",
];
export const [END, WRITE, NOTE, ALLOCATE, APPEND, COPY, FORK, FREE, RELEASE, PREEMPT, SWAP_OUT, SWAP_IN, CACHE, HIT, EVICT, RESET] = KINDS.keys();

/** In a table: an entry left of the window, and the end of the table, from which on there is nothing. */
export const LEFT = -1, CUT = -2;

/** Where a sequence that has no table is. */
export const HERE = 0, SWAPPED = 1, PREEMPTED = 2;

/** Whole numbers, seven bits a byte. */
export class Reader {
  /** @param {DataView} view @param {number} [at] */
  constructor(view, at = 0) {
    this.bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    this.at = at;
  }

  next() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }

  list() {
    const list = [];
    for (let left = this.next(); left > 0; left--) list.push(this.next() - 1);
    return list;
  }
}

/**
 * Who hears of a replay.
 * @typedef {object} Listener
 * @property {(block: number, owner: number, fill: number, refs: number, keyed: number) => void} block  what a block holds from now on
 * @property {(seq: number, entry: number, block: number) => void} table  an entry of a table, or `CUT`
 * @property {(seq: number, status: number) => void} status  a sequence left for the host, was preempted, or is here
 */

/** A pool that events change. */
export class Pool {
  /** @param {number} numBlocks @param {number} blockSize @param {Listener} listener */
  constructor(numBlocks, blockSize, listener) {
    this.blockSize = blockSize;
    this.listener = listener;
    /** @type {number[][]} */
    this.tables = [];
    /** @type {number[]} */
    this.tokens = [];
    /** @type {Set<number>} */
    this.away = new Set();
    /** @type {number[][]} */
    this.holders = Array.from({ length: numBlocks }, () => []);
    this.fills = new Uint16Array(numBlocks);
    this.owners = new Uint16Array(numBlocks);
    this.keyed = new Uint8Array(numBlocks);
  }

  /**
   * Read one event behind its kind, and do it.
   * @param {number} kind @param {Reader} reader @returns {number}  the sequence it is about
   */
  apply(kind, reader) {
    if (kind === WRITE) return this.#write(reader);
    if (kind === RESET) {
      this.keyed.forEach((keyed, block) => keyed && this.#key([block], 0));
      return 0;
    }
    const seq = reader.next();
    if (kind === APPEND) {
      const tokens = reader.next(), blocks = reader.list();
      this.#extend(seq, blocks);
      this.#store(seq, tokens);
      for (const block of blocks) if (!this.fills[block]) this.#tell(block);
    } else if (kind === ALLOCATE) {
      this.#begin(seq, reader.next(), reader.list());
    } else if (kind === SWAP_IN) {
      this.#begin(seq, this.tokens[seq], reader.list());
    } else if (kind === COPY) {
      const entry = reader.next(), source = reader.next(), target = reader.next();
      this.fills[target] = this.fills[source];
      this.#drop(seq, [source]);
      this.tables[seq][entry] = target;
      this.#hold(seq, target);
      this.listener.table(seq, entry, target);
    } else if (kind === FORK) {
      const parent = reader.next();
      this.tokens[seq] = reader.next();
      this.tables[seq] = [];
      this.#extend(seq, this.tables[parent].slice(0, reader.next()));
      this.tables[seq].forEach((block) => block >= 0 && this.#tell(block));
    } else if (kind === RELEASE) {
      const entry = reader.next(), end = entry + reader.next();
      this.#drop(seq, this.tables[seq].slice(entry, end));
      for (let i = entry; i < end; i++) {
        this.tables[seq][i] = LEFT;
        this.listener.table(seq, i, LEFT);
      }
    } else if (kind === CACHE || kind === EVICT) {
      this.#key(reader.list(), Number(kind === CACHE));
    } else if (kind === FREE || kind === PREEMPT || kind === SWAP_OUT) {
      this.#leave(seq);
      if (kind === PREEMPT) reader.next();
      this.#status(seq, kind === FREE ? HERE : kind === PREEMPT ? PREEMPTED : SWAPPED);
    } else if (kind === HIT) {
      reader.next();
      reader.list();
    } else if (kind === NOTE) {
      reader.next();
    }
    return seq;
  }

  /** @param {Reader} reader */
  #write(reader) {
    const first = reader.next(), end = first + reader.next(), owner = reader.next(), fill = reader.next(), refs = reader.next();
    for (let block = first; block < end; block++) this.listener.block(block, owner, fill, refs, 0);
    return owner;
  }

  /** @param {number} seq @param {number} tokens @param {number[]} blocks */
  #begin(seq, tokens, blocks) {
    this.tables[seq] = [];
    this.tokens[seq] = 0;
    this.#extend(seq, blocks);
    this.#store(seq, tokens, false);
    for (const block of blocks) if (block >= 0) this.#tell(block);
    this.#status(seq, HERE);
  }

  /** @param {number} seq @param {number[]} blocks */
  #extend(seq, blocks) {
    const table = this.tables[seq];
    for (const block of blocks) {
      this.listener.table(seq, table.length, block);
      table.push(block);
      if (block >= 0) this.#hold(seq, block, false);
    }
  }

  /** @param {number} seq @param {number} block */
  #hold(seq, block, tell = true) {
    this.holders[block].push(seq);
    this.owners[block] = this.holders[block][0];
    if (tell) this.#tell(block);
  }

  /** @param {number} seq @param {number[]} blocks */
  #drop(seq, blocks) {
    for (const block of blocks) {
      if (block < 0) continue;
      const holders = this.holders[block];
      holders.splice(holders.indexOf(seq), 1);
      if (holders.length) this.owners[block] = holders[0];
      else this.fills[block] = 0;
      this.#tell(block);
    }
  }

  /** @param {number} seq */
  #leave(seq) {
    this.#drop(seq, this.tables[seq] ?? []);
    this.tables[seq] = [];
    this.listener.table(seq, 0, CUT);
  }

  /** @param {number} seq @param {number} tokens */
  #store(seq, tokens, tell = true) {
    const { blockSize: size } = this, table = this.tables[seq], start = this.tokens[seq], stop = (this.tokens[seq] = start + tokens);
    for (let i = Math.floor(start / size); i * size < stop; i++) {
      const block = table[i];
      if (!(block >= 0)) continue;
      this.fills[block] = Math.min(size, stop - i * size);
      if (tell) this.#tell(block);
    }
  }

  /** @param {number[]} blocks @param {number} keyed */
  #key(blocks, keyed) {
    for (const block of blocks) {
      this.keyed[block] = keyed;
      this.#tell(block);
    }
  }

  /** @param {number} seq @param {number} status */
  #status(seq, status) {
    if (status === HERE ? !this.away.delete(seq) : !this.away.add(seq)) return;
    this.listener.status(seq, status);
  }

  /** @param {number} block */
  #tell(block) {
    this.listener.block(block, this.owners[block], this.fills[block], this.holders[block].length, this.keyed[block]);
  }
}
