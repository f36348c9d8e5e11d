import { Suspense, useDeferredValue, useState } from "react";
import { useStatus } from "sowline/react";

import { Blotter } from "./Blotter.js";
import { Editor } from "./Editor.js";
import { filterOf, STATUSES, SYMBOLS, type Choice } from "./orders.js";
import { Top } from "./Top.js";

export function Desk() {
  const [choice, setChoice] = useState<Choice>({ symbol: "", status: "" });
  const [chosen, setChosen] = useState<string>();
  // While the records of another filter come, those of the last one stay.
  const filter = useDeferredValue(filterOf(choice));
  return (
    <>
      <header>
        <h1>Trading desk</h1>
        <Select name="Symbol" options={SYMBOLS} onChoose={(symbol) => setChoice({ ...choice, symbol })} />
        <Select name="Status" options={STATUSES} onChoose={(status) => setChoice({ ...choice, status })} />
        <Connection />
      </header>
      <main>
        <Suspense fallback={<p>Loading…</p>}>
          <Blotter filter={filter} onChoose={setChosen} />
        </Suspense>
        <aside>
          {chosen === undefined ? <p>Choose an order to edit it.</p> : <Editor sowKey={chosen} key={chosen} />}
          <Top />
        </aside>
      </main>
    </>
  );
}

interface SelectProps {
  name: string;
  options: readonly string[];
  onChoose: (value: string) => void;
}

function Select({ name, options, onChoose }: SelectProps) {
  return (
    <label>
      {name}{" "}
      <select onChange={({ target }) => onChoose(target.value)}>
        <option value="">all</option>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </label>
  );
}

function Connection() {
  const status = useStatus();
  return <output className={status}>{status}</output>;
}
