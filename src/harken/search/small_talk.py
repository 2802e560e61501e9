"""How people greet, thank, agree, wish, wait and part, by language: the words that such messages are made of.

A message must be of one language: German "die" and "war" are no English words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harken.search.query import Query
from harken.text import tokens
from harken.text.words import STOP_WORDS

# Words that keep a talk going. A query of nothing else is about nothing that was said before.
_SMALL_TALK = """
    ok okay k kk yes yeah yep yup no nope nah thanks thank thx ty cheers great good fine cool nice perfect awesome
    excellent wonderful lovely amazing brilliant fantastic sure right alright hi hello hey hiya bye goodbye morning
    afternoon evening night day lol haha hmm hm mhm uh um oh ah wow oops sorry pardon welcome go going gone ahead
    continue proceed carry keep stop wait done got gotcha it's understood sounds sound makes make sense agreed agree
    exactly correct true absolutely definitely indeed maybe perhaps mind never let let's move moment minute second
    later soon tomorrow today now see much many lot help helped helpful appreciate appreciated need needed needs
    well say said tell told repeat thought think thinking know want wanted like liked love loved looks look way
    works work really actually also still yet just quick quickly question thing things anything everything something
    nothing bit first next last back away long time start started begin ready please kindly happy glad hope
    hopefully forward да нет ок окей ага угу спасибо благодарю пожалуйста хорошо ладно понял поняла понятно ясно
    привет здравствуй здравствуйте пока отлично супер класс круто давай давайте конечно точно верно согласен
    согласна продолжай продолжайте дальше готово стоп подожди подождите спс норм добрый доброе утро день вечер ночи
    большое очень правильно именно наверное дела поживаешь возможно извини извините прости сейчас потом скажи думаю
    знаю oui non merci d'accord bonjour salut ja nein danke bitte gut hallo tschüss si sí gracias vale hola bueno
    好 好的 好吧 行 可以 是 是的 对 对的 不 不是 没有 没事 谢谢 谢谢你 多谢 感谢 嗯 嗯嗯 哦 你好 您好
    再见 明白 明白了 知道 知道了
    继续 没问题 当然 はい いいえ ありがとう ありがとうございます
    わかりました 了解 了解です 네 아니요 감사합니다 알겠습니다
"""
SMALL_TALK = frozenset(_SMALL_TALK.split())


@dataclass(frozen=True, slots=True)
class Courtesies:
    """The words of one language.

    Attributes:
        plain: function words, and those that keep a talk going: a message of nothing else names nothing.
        polite: what greetings, thanks and wishes are about (a weekend, a minute), which may be a topic as well.
        either: those two together.
        markers: of which one shows that they are not.
        asking: of which one shows that they are.
    """

    plain: frozenset[str]
    polite: frozenset[str]
    either: frozenset[str]
    markers: frozenset[str]
    asking: frozenset[str]


# Written the same in many languages.
_ANYWHERE = """
    ok okay okey k kk lol haha hah ha hehe hihi hm hmm hmmm mhm mm uh um oh ah aha wow super bravo ciao hi hallo
    hello bye thx ty merci top cool perfect
"""

_ENGLISH = """
    i'd i'm it'd that'd there'd y'all gonna wanna gotta lemme gimme dunno idk imo btw brb afk np yw omg nvm pls plz
    hooray yay yup yikes ouch ugh phew whoa woah meh aww ooh huh eh ha hah hehe congrats congratulations kudos bravo
    clear clears cleared clearer clearly idea ideas point points fair enough mean means meant understand understands
    give gives gave given take takes took taken come comes came getting gets put try trying tried hear heard reading
    read hang hold holding bear check checking checked chat talk talked talking speak spoken ping catch write
    minutes seconds hour hours couple few while sec secs min mins half five ten two three one once twice
    tonight weekend week days nights rest sleep coffee tea lunch dinner break lovely pleasant great best better
    worst enjoy enjoyed have fun luck lucky safe travels trip journey holiday holidays birthday merry bless problem
    problems worry worries trouble bother bothering fault bad mistake wrong misunderstood excuse apologies apologize
    forgive hurry rush matter whatever anyway anyways regardless though however instead rather quite pretty very
    super totally fully completely entirely almost especially particularly certainly surely obviously probably
    possibly likely literally seriously honestly frankly simply star legend hero genius lifesaver saver saved save
    saves life pleasure honor kind kindness sweet generous patient patience wise smart clever impressive impressed
    beautiful gorgeous neat solid decent terrific superb outstanding splendid marvelous stellar incredible
    unbelievable interesting funny hilarious weird strange sad grateful thankful thrilled excited delighted pleased
    satisfied relieved busy tired hungry sick sleepy bored confused lost stuck impatient works worked working did
    does doing done finish finished over same like such exactly precisely spot part deal trick job jobs made making
    approve approved accept accepted confirm confirmed noted copy roger affirmative negative decline skip pass pause
    resume redo undo retry again another different option options choice choose pick prefer preferred former latter
    both either neither none all feel feeling feels guess suppose reckon believe doubt decide wonder wondering
    consider considering guy guys man mate buddy bro pal dude friend friends folks team everyone everybody sir madam
    dear old new little big small long short far close full whole free open there's you're that's how's what's
    where're here's yours mine hello's one's stay care cheers goodnight farewell greetings howdy yo sup salutations
"""
_RUSSIAN = """
    это этот эта эти том тогда такой такая такое такие оно мы нам нас наш моя моё мои твой твоя ваш ваша свой сама
    само сами кому кого чему чём кем который которая которые когда нибудь куда то как что какой всё все всем весь
    вся ещё еще бы б же ж ли лишь снова опять обратно вместе вроде кажется похоже видимо просто вообще совсем
    довольно немного чуть слишком скоро скорее быстро позже раньше завтра сегодня вчера вечером утром днём ночью
    минутку минуту минуты минут секунду секундочку час часа часов пару неделю неделе неделя выходные выходных отдых
    отпуск ну вот так ой ох ух эх ого ура блин чёрт помог помогла помогло помогли помощь помощью выручил выручила
    спас спасла благодарен благодарна признателен рад рада рады приятно приятного аппетита удачи успехов счастливо
    пути счастливого праздником рождения днем делаешь делай делать делаем сделай сделаем сделал сделала поживаешь
    жизнь нового новости настроение буду будем будет будешь вернусь вернёмся увидимся созвонимся спишемся встречи
    свидания связи напишу надо нужно можно нельзя хочу хочешь хотел хотела хотелось могу можешь можете смогу
    попробую попробуем попробуй подумать подумаю подумаем подумай решу решим решить пойду пойдем пойдём поехали иду
    начнем начнём начинай закончим поняли понимаю понимаешь вижу видишь слышу знаешь помню забудь неважно забыл
    забыла ошибся ошиблась ошибка виноват прошу прощения простите жаль жалко проблем проблема проблемы вопросов
    вопрос страшно страшного хороший хорошая хорошее хороших хорошего хорошей плохо неплохо нормально замечательно
    прекрасно чудесно здорово великолепно идеально шикарно превосходно молодец умница красавчик лучший лучшая лучше
    гений согласны договорились принято принял приняла решено идёт пойдёт годится подходит устраивает нравится
    понравилось люблю верю надеюсь уверен уверена сомневаюсь интересно смешно забавно странно грустно весело устал
    устала занят занята спать сон спокойной снов дорогой дорогая друг друзья ребята повтори повторите объясни ответь
    расскажи пиши говори говорите слушай слушаю смотри погоди постой хватит останови остановись останься оставь
    другой другая другое первый второй вариант вперёд вперед назад
"""
_GERMAN = (
    """
    ich du er sie es wir ihr mich dich sich uns euch mir dir ihm ihn ihnen mein meine dein deine sein seine unser
    unsere der die das den dem des ein eine einen einem einer eines kein keine keinen und oder aber denn weil dass
    daß ob wenn als wie was wer wen wem wo wann warum wieso weshalb welche welcher welches so dann da hier dort nun
    jetzt schon noch nur auch mal doch ja nein nicht nichts etwas alles alle jeder jede man mit von zu zum zur bei
    beim nach vor für auf an am in im ins aus über unter um durch ohne gegen bis seit ist sind war waren bin bist
    seid sei wird werde werden habe hab hast hat haben hatte hatten kann kannst können könnte könntest muss musst
    müssen soll sollst sollte will willst wollen möchte möchtest darf dürfen mag magst würde würdest lass lasst geht
    gehts geht's gibt gibt's jo jep jawohl nee nö danke dankeschön dank vielen tausend bitte bitteschön gern gerne
    hallo hi hey moin servus tschüss tschüs tschau ciao gut gute guten guter gutes super toll prima klasse perfekt
    genau richtig stimmt klar okay ok fein schön schöne
    schönen schönes sehr ganz wirklich einfach natürlich sicher bestimmt
    vielleicht wahrscheinlich morgen tag abend nacht entschuldigung entschuldige sorry verzeihung weiter fertig
    stopp stop halt warte moment verstanden verstehe versteh einverstanden abgemacht passt später bald gleich wieder
    """,
    """
    mach mache machst macht machen gemacht tu tun tue getan geh gehe gehen los komm komme kommen weitermachen
    fortfahren anfangen beginnen aufhören warten denken denke denk nachdenken überlegen überlege glaube glaub weiß
    weißt meine meinst finde findest sehe sehen siehst schaue schauen hör höre sag sage sagen gesagt frage frag
    fragen antwort hilft helfen geholfen hilfe hilfreich nett lieb freundlich freue freut froh glücklich zufrieden
    leid tut schade kein problem probleme sorge sorgen ursache egal wichtig schlimm fehler recht sinn idee minute
    minuten sekunde sekunden stunde stunden augenblick zeit kurz lange heute gestern woche wochenende feierabend
    urlaub reise fahrt pause schlaf schlafe schlafen träum kaffee essen appetit glück erfolg spaß geburtstag zurück
    weg da dabei hin her viel viele mehr wenig bisschen besser beste bester besten großartig wunderbar ausgezeichnet
    hervorragend fantastisch genial spitze wahnsinn krass cool lustig interessant müde beschäftigt bereit genauso
    ebenso gleichfalls auch anders andere anderen nochmal noch einmal erste zweite wieder wiederholen wiederhole
    wünsche wünsch hoffe hoffentlich liebe lieber grüße gruß leute freund freunde bis dahin hören uns wiedersehen
    """,
)
_SPANISH = (
    """
    yo tú tu él ella usted nosotros ellos ellas ustedes me te se nos os le les lo la los las mi mis su sus mío tuyo
    el un una unos unas y e o u pero porque pues que qué cómo como cuándo cuando dónde donde quién quien cuál cuánto
    si sí no ni de del a al en con sin por para sobre entre hasta desde hacia muy más menos tan tanto mucho mucha
    muchos muchas poco algo nada todo toda todos todas otro otra este esta esto ese esa eso aquí ahí allí ahora ya
    aún todavía también tampoco así solo sólo bien mal es son era eres soy somos está estás están estoy estamos
    estar ser fue ha has he hay haber hemos han tiene tienes tengo puede puedes puedo va vas voy vamos haz hace
    haces ok okay vale claro gracias muchísimas favor perdón perdona disculpa disculpe hola buenas buenos buena
    bueno días tardes noches noche día adiós chao chau ciao luego pronto mañana genial perfecto excelente estupendo
    fantástico maravilloso increíble exacto exactamente correcto cierto verdad acuerdo entendido entiendo comprendo
    listo lista sigue siga seguir continúa continuar adelante espera espere alto quizás quizá tal vez seguro
    supuesto
    """,
    """
    ayudado ayudaste ayuda ayudas ayudó útil amable encantado encantada gusto igualmente alegro alegra feliz
    contento pasa pasó pasado preocupes preocupe problema problemas importa nada culpa siento lamento error parece
    pareció pienso piensa pensar pensarlo pensaré creo sé sabes saber decir dime diga digo dicho quiero quieres
    quería quisiera gusta gustó encanta encantó veo ver vemos veremos mira oye escucha hablamos hablar llamo escribo
    déjame deja dejar dame da doy toma hazlo hagamos hagámoslo hacer hacerlo hecho empieza empezar empecemos termina
    terminado vuelvo volver regreso repite repetir otra vez momento momentito minuto minutos segundo segundos hora
    horas rato tiempo tarde hoy ayer semana fin descanso descansa vacaciones viaje suerte éxito cumpleaños café
    mejor mejores bonito lindo guapo gran grande crack genio amigo amiga amigos chicos equipo gracioso divertido
    interesante raro triste cansado cansada ocupado ocupada primero opción misma mismo igual besos abrazo abrazos
    saludos cuídate espero deseo ojalá pases paséis vaya ánimo felicidades enhorabuena
    """,
)
_FRENCH = (
    """
    à je j'ai tu il elle on nous vous ils elles me te se moi toi lui leur leurs mon ma mes ton ta tes son sa ses
    notre nos votre vos le la les un une des du de d au aux en y et ou mais donc car que qu'est qu'il quoi qui quand
    comment pourquoi où quel quelle si oui non ne pas plus moins très trop peu beaucoup tout tous toute toutes rien
    ça cela ce c'est c'était cet cette ces ici là maintenant déjà encore aussi alors puis avec sans pour par sur
    sous dans entre est sont suis es sommes êtes était être ai as a avons avez ont avoir va vas vais allons allez
    aller fait fais faire peut peux pouvez veux veut voulez dois doit faut ok okay d'accord merci bien mal bon bonne
    bons bonnes bonjour bonsoir salut coucou revoir adieu bientôt demain s'il plaît svp stp pardon désolé désolée
    excuse excusez parfait super génial excellent formidable magnifique exactement exact voilà entendu compris vrai
    juste sûr certain bref continue continuez attends attendez stop arrête arrêtez prêt prête fini nuit soir soirée
    journée matin
    """,
    """
    aide aidé aidée aider utile gentil gentille plaisir grave problème souci soucis t'inquiète inquiète inquiétez
    pense penser réfléchir réfléchis crois sais sait savoir dis dire dit vois voir verra verrons regarde écoute
    parle parler reparle comprends comprendre aime j'aime adore content contente heureux heureuse ravi ravie espère
    souhaite moment minute minutes seconde secondes heure heures instant temps tard tôt aujourd'hui hier semaine
    weekend week end vacances voyage repos repose café chance courage anniversaire félicitations bravo reviens
    revenir retour répète recommence commence commençons laisse prends donne moi tiens idée sens raison erreur faute
    meilleur mieux drôle intéressant bizarre triste fatigué fatiguée occupé même autre fois premier deuxième choix
    ami amis bises bisous
    """,
)
_ITALIAN = (
    """
    io tu lui lei noi voi loro mi ti si ci vi lo la li le gli il un uno una i e ed o ma se che chi cosa come quando
    dove perché quale quanto sì no non di del della dei a al alla in nel nella con senza per su tra fra da dal più
    meno molto molte molti tanto tante tanti poco tutto tutti niente nulla qualcosa questo questa quello quella qui
    qua lì là ora adesso già ancora anche così solo bene male è sono sei siamo siete era essere ho hai ha abbiamo
    avete hanno può puoi posso va vai vado andiamo andare fa fai faccio fare deve devo devi vuoi voglio ok okay
    grazie mille prego favore scusa scusi scusate ciao salve buongiorno buonasera buonanotte arrivederci buon buona
    buono giorno sera notte domani presto dopo perfetto ottimo eccellente fantastico splendido bellissimo bello
    esatto esattamente giusto vero certo certamente sicuro d'accordo capito capisco chiaro pronto fatto continua
    continuiamo avanti aspetta aspetti fermo basta forse magari benissimo
    """,
    """
    aiuto aiutato utile gentile piacere contento contenta felice problema problemi preoccuparti figurati importa
    errore colpa penso pensare pensarci pensa credo so sai sapere dire dimmi dico detto vedo vedere vediamo guarda
    senti sentiamo parlare parliamo piace piaciuto spero auguri momento attimo minuto minuti secondo secondi ora ore
    tempo oggi ieri settimana fine vacanza vacanze viaggio riposo caffè fortuna compleanno ripeti torno tornare
    ritorno lascia lasciami dammi prendi inizia iniziamo finito idea senso ragione migliore meglio divertente
    interessante strano triste stanco stanca occupato stesso stessa altro altra volta primo opzione amico amici baci
    abbraccio saluti
    """,
)
_PORTUGUESE = (
    """
    eu tu você ele ela nós vocês eles elas me te se nos lhe o a os as um uma uns umas e ou mas que quê quem como
    quando onde porque porquê por qual quanto sim não nem de do da dos das em no na nas com sem para pra até desde
    sobre entre muito muita muitos muitas mais menos tão pouco tudo todo toda todos nada algo isso isto este esta
    esse essa aqui ali lá agora já ainda também assim só bem mal é são era és sou somos está estás estou estamos ser
    estar foi tem tens tenho há pode podes posso vai vais vou vamos faz fazer deve quer quero ok okay obrigado
    obrigada valeu desculpa desculpe perdão oi olá bom boa bons boas dia tarde noite tchau adeus logo amanhã breve
    ótimo perfeito excelente fantástico maravilhoso legal beleza certo certeza claro exato exatamente verdade acordo
    entendi entendido percebi pronto pronta continua continue adiante espera espere pare talvez
    """,
    """
    ajuda ajudou ajudado útil gentil prazer feliz contente problema problemas preocupe preocupes importa erro culpa
    acho penso pensar sei sabe saber dizer diz disse vejo ver veremos olha escuta falar falamos gosto gostei adorei
    amei espero desejo parabéns momento minuto minutos segundo segundos hora horas tempo hoje ontem semana fim
    férias viagem descanso café sorte aniversário repete volto voltar deixa deixe dá dê toma faça começa começar
    terminado ideia sentido razão melhor engraçado interessante estranho triste cansado cansada ocupado mesmo mesma
    outro outra vez primeiro opção amigo amigos beijos abraço abraços saudações
    """,
)


_MARKERS = """
    thanks thank thx ty cheers hi hello hey hiya howdy bye goodbye goodnight farewell yes yeah yep yup no nope nah
    ok okay alright great brilliant perfect awesome excellent wonderful lovely amazing fantastic cool nice good best
    sorry pardon hope enjoy congrats congratulations wow oops haha ha lol sure fair gotcha understood agreed
    appreciate grateful wait hold hang brb back minutes sec please kudos bless luck worries glad happy welcome
    pleasure np спасибо благодарю спс да нет ок ага угу хорошо ладно понял поняла понятно ясно привет здравствуй
    здравствуйте пока отлично супер класс круто доброе добрый спокойной удачи извини извините прости подожди
    подождите минутку секундочку надеюсь рад рада молодец здорово прекрасно замечательно норм конечно договорились
    увидимся счастливо ура ого danke dankeschön dank ja nein jo nee hallo moin servus tschüss tschüs ciao gut gute
    guten guter super toll prima klasse perfekt schön schöne
    schönen schönes klar alles entschuldigung entschuldige hoffe
    hoffentlich grüße viel glück freut moment warte augenblick einverstanden verstanden genau leid großartig
    wunderbar gracias sí si vale hola adiós chao buenas buenos buena bueno genial perfecto excelente estupendo
    fantástico claro perdón perdona disculpa espera espero saludos abrazo suerte felicidades hasta momento déjame
    encantado merci oui non bonjour bonsoir salut coucou au revoir bien bon bonne génial parfait d'accord désolé
    désolée attends attendez espère félicitations bravo bientôt grazie sì salve buongiorno buonasera buonanotte buon
    buona perfetto ottimo benissimo scusa scusi aspetta spero auguri arrivederci obrigado obrigada valeu sim não oi
    olá tchau bom boa ótimo perfeito legal beleza desculpa desculpe espere parabéns
"""
_ASKING = """
    what when where who whom whose which why how about tell show remind remember recall find search list explain
    mention mentioned что когда где куда кто какой какая какие каком почему зачем сколько расскажи напомни покажи
    найди объясни про о об was wann wo wer welche welcher welches warum wieviel über erzähl zeig erinnere finde qué
    cuándo dónde quién cuál cuánto sobre cuéntame muéstrame recuérdame busca quoi quand où qui quel quelle combien
    pourquoi raconte montre rappelle cherche cosa quando dove chi quale quanto perché raccontami mostrami ricordami
    o que quem qual porquê
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _courtesies(plain: frozenset[str], polite: str) -> Courtesies:
    plain, about = plain | _words(_ANYWHERE), _words(polite)
    return Courtesies(plain, about, plain | about, _words(_MARKERS), _words(_ASKING))


COURTESIES = (
    *(_courtesies(STOP_WORDS | SMALL_TALK, polite) for polite in (_ENGLISH, _RUSSIAN)),
    *(_courtesies(_words(plain), polite) for plain, polite in (_GERMAN, _SPANISH, _FRENCH, _ITALIAN, _PORTUGUESE)),
)


# Signs that hold a Chinese or Japanese sentence together: a pair with one of them in it names nothing.
_FUNCTION_SIGNS = frozenset(
    "的是了我们你您他她它这那在有和与或就不也都很吗呢吧啊么什怎哪谁几多少为对把被给到说要去会能可以过着没还再请让"
)
# Made once: this is asked of every query.
_NOTHING = STOP_WORDS | SMALL_TALK
_HIRAGANA = re.compile("[\u3040-\u309f]")


def asks_nothing(query: Query, least_tokens: int) -> bool:
    """Whether there is nothing to search for: no words, too few tokens, or small talk."""
    return not query.text or is_small_talk(query) or tokens.estimate(query.text) < least_tokens


def is_small_talk(query: Query) -> bool:
    """Whether nothing was said but stop words, what keeps a talk going, courtesies, and the number of a choice."""
    words = {word for word in query.words if not _is_choice(word)}
    return words <= _NOTHING or any(_is_courtesy(words, query.text, each) for each in COURTESIES)


def _is_courtesy(words: set[str], text: str, courtesies: Courtesies) -> bool:
    """Whether a message is only polite; what could be a topic as well counts where something marks it as that."""
    if words <= courtesies.plain:
        return True
    is_polite = words <= courtesies.either and not words.isdisjoint(courtesies.markers)
    return is_polite and words.isdisjoint(courtesies.asking) and "?" not in text


def telling_terms(terms: Iterable[str]) -> list[str]:
    """The terms of a query that say what it is about; all of them where none does."""
    given = list(terms)
    telling = [term for term in given if term not in SMALL_TALK and term not in STOP_WORDS and not _joins(term)]
    return telling or given


def is_mostly_foreign(text: str) -> bool:
    """Whether more than half of a text's letters are of another script than the Latin one."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(character > "\u024f" for character in letters) > len(letters)


def _is_choice(word: str) -> bool:
    return word.isdigit() and len(word) < 3


def _joins(term: str) -> bool:
    return len(term) <= 2 and any(sign in _FUNCTION_SIGNS or _HIRAGANA.match(sign) for sign in term)
