/** What TeX's commands stand for: letters, operators, names of functions, accents, alphabets, delimiters. */

/** Pairs written as `name character`, separated by blanks. */
function table(pairs: string): Map<string, string> {
  const words = pairs.trim().split(/\s+/);
  const map = new Map<string, string>();
  for (let at = 0; at + 1 < words.length; at += 2) map.set(words[at]!, words[at + 1]!);
  return map;
}

/** Letters and other names: `mi`. */
export const LETTERS = table(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ
  nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
  Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
  infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ wp ℘ Re ℜ Im ℑ aleph ℵ beth ℶ emptyset ∅ varnothing ∅ imath ı jmath ȷ
  angle ∠ triangle △ square □ blacksquare ■ checkmark ✓ top ⊤ bot ⊥ degree ° ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱
  dotsc … dotsb ⋯ prime ′ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ natural ♮ sharp ♯
  % % $ $ # # & & _ _`);

/** Operators and relations: `mo`. */
export const OPERATORS = table(`
  cdot ⋅ times × div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ dagger †
  cap ∩ cup ∪ uplus ⊎ sqcap ⊓ sqcup ⊔ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ wr ≀ amalg ⨿ diamond ⋄
  leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ sim ∼ simeq ≃ cong ≅ approx ≈ propto ∝ ll ≪ gg ≫ prec ≺ succ ≻ preceq ⪯
  succeq ⪰ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ sqsubseteq ⊑ sqsupseteq ⊒ in ∈ ni ∋ notin ∉
  mid ∣ nmid ∤ parallel ∥ perp ⟂ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ asymp ≍ doteq ≐ leqslant ⩽ geqslant ⩾ lesssim ≲
  gtrsim ≳ triangleq ≜ coloneqq ≔ colon : therefore ∴ because ∵ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬
  to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⟺ implies ⟹
  impliedby ⟸ longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸
  Longleftrightarrow ⟺ mapsto ↦ longmapsto ⟼ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗
  searrow ↘ swarrow ↙ nwarrow ↖ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ rightleftharpoons ⇌ leadsto ⇝
  blacktriangleright ▸ trianglelefteq ⊴ trianglerighteq ⊵ bowtie ⋈ smile ⌣ frown ⌢`);

/** Large operators: their limits stand above and below in a formula of its own. */
export const LARGE = table(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄ bigsqcup ⨆`);

/** Integrals: their limits stand beside them. */
export const INTEGRALS = table(`int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯`);

export const FUNCTIONS = new Set(
  `sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth exp log ln lg det dim ker hom deg arg gcd Pr
   lim limsup liminf max min sup inf argmax argmin`.split(/\s+/),
);

/** Of those, the ones whose limits stand below them. */
export const FUNCTIONS_WITH_LIMITS = new Set(
  "lim limsup liminf max min sup inf argmax argmin det gcd Pr".split(" "),
);

export const ACCENTS = table(`
  hat ^ widehat ^ check ˇ tilde ~ widetilde ~ bar ¯ overline ¯ vec → overrightarrow → overleftarrow ← dot ˙ ddot ¨
  dddot ⃛ acute ´ grave \` breve ˘ mathring ˚ overbrace ⏞ overbracket ⎴`);

export const UNDER_ACCENTS = table(`underline _ underbrace ⏟ underbracket ⎵ underrightarrow →`);

export const DELIMITERS = table(`
  lbrace { rbrace } { { } } langle ⟨ rangle ⟩ lvert | rvert | vert | Vert ‖ lVert ‖ rVert ‖ | ‖ lfloor ⌊ rfloor ⌋
  lceil ⌈ rceil ⌉ lbrack [ rbrack ] lgroup ⟮ rgroup ⟯ backslash \\ uparrow ↑ downarrow ↓ updownarrow ↕`);

/** Widths of spaces, in em. */
export const SPACES = new Map<string, number>([
  [",", 3 / 18],
  [":", 4 / 18],
  [">", 4 / 18],
  [";", 5 / 18],
  ["!", -3 / 18],
  [" ", 4 / 18],
  ["quad", 1],
  ["qquad", 2],
  ["thinspace", 3 / 18],
  ["enspace", 0.5],
]);

/** First code points of capitals, small letters and digits in an alphabet; letters that stand elsewhere. */
interface Alphabet {
  capitals: number;
  small: number;
  digits?: number;
  elsewhere?: Record<string, string>;
}

const SCRIPT: Alphabet = {
  capitals: 0x1d49c,
  small: 0x1d4b6,
  elsewhere: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
};

const ALPHABETS: Record<string, Alphabet> = {
  mathbf: { capitals: 0x1d400, small: 0x1d41a, digits: 0x1d7ce },
  boldsymbol: { capitals: 0x1d468, small: 0x1d482, digits: 0x1d7ce },
  mathcal: SCRIPT,
  mathscr: SCRIPT,
  mathfrak: {
    capitals: 0x1d504,
    small: 0x1d51e,
    elsewhere: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
  },
  mathbb: {
    capitals: 0x1d538,
    small: 0x1d552,
    digits: 0x1d7d8,
    elsewhere: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
  },
  mathsf: { capitals: 0x1d5a0, small: 0x1d5ba, digits: 0x1d7e2 },
  mathtt: { capitals: 0x1d670, small: 0x1d68a, digits: 0x1d7f6 },
};

const ALIASES: Record<string, string> = { bm: "boldsymbol", Bbb: "mathbb", bf: "mathbf", mathbfit: "boldsymbol" };

/** The name under which an alphabet is known here: upright, italic, or one with letters of its own. */
export function alphabetOf(command: string): string | null {
  if (["mathrm", "mathit", "mathnormal", "rm"].includes(command)) return command;
  const name = ALIASES[command] ?? command;
  return name in ALPHABETS ? name : null;
}

/** A character in an alphabet. Greek has bold letters too; what an alphabet lacks stays as it is. */
export function inAlphabet(character: string, name: string): string {
  const alphabet = ALPHABETS[name];
  if (!alphabet) return character;
  const elsewhere = alphabet.elsewhere?.[character];
  if (elsewhere) return elsewhere;
  const code = character.codePointAt(0)!;
  if (character >= "A" && character <= "Z") return String.fromCodePoint(alphabet.capitals + code - 65);
  if (character >= "a" && character <= "z") return String.fromCodePoint(alphabet.small + code - 97);
  if (character >= "0" && character <= "9" && alphabet.digits) return String.fromCodePoint(alphabet.digits + code - 48);
  if (character >= "α" && character <= "ω" && name.startsWith("bo")) return String.fromCodePoint(0x1d736 + code - 0x3b1);
  return character;
}
